#include "server/coordinator/service/background_work.h"

#include <utility>

#include "common/log.h"

namespace strata::server {

void BackgroundWork::Do(std::function<void()> work) {
  pieces_.remove_if([](Piece& one) {
    if (one.done) one.thread.join();
    return !one.thread.joinable();
  });
  Piece& added = pieces_.emplace_back();
  added.thread = std::thread([&added, work = std::move(work)] {
    work();
    added.done = true;
  });
}

void BackgroundWork::WaitForAll() {
  for (Piece& piece : pieces_) piece.thread.join();
  pieces_.clear();
}

void CheckpointKeeper::Find(const CheckpointQuery& query,
                            std::function<void(const absl::StatusOr<CheckpointFound>&)> done) {
  work_.Do([this, query, done = std::move(done)] { done(FindCheckpoint(query, open_)); });
}

void CheckpointKeeper::Keep(const CheckpointToKeep& checkpoint,
                            std::function<void(const absl::Status&)> done) {
  work_.Do([this, checkpoint, done = std::move(done)] {
    absl::Status deleting;
    done(KeepCheckpoint(checkpoint, open_, &deleting));
    if (!deleting.ok()) {
      LogWarning("job %d: old checkpoints are not deleted: %s", checkpoint.manifest.job,
                 deleting.message());
    }
  });
}

}  // namespace strata::server
