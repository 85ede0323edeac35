#include "server/coordinator/service/checkpoint_keeper.h"

#include <utility>

#include "common/log.h"

namespace strata::server {

void CheckpointKeeper::Stop() {
  for (Work& work : works_) work.thread.join();
  works_.clear();
}

void CheckpointKeeper::Do(std::function<void()> work) {
  works_.remove_if([](Work& one) {
    if (one.done) one.thread.join();
    return !one.thread.joinable();
  });
  Work& added = works_.emplace_back();
  added.thread = std::thread([&added, work = std::move(work)] {
    work();
    added.done = true;
  });
}

void CheckpointKeeper::Find(const CheckpointQuery& query,
                            std::function<void(const absl::StatusOr<CheckpointFound>&)> done) {
  Do([this, query, done = std::move(done)] { done(FindCheckpoint(query, open_)); });
}

void CheckpointKeeper::Keep(const CheckpointToKeep& checkpoint,
                            std::function<void(const absl::Status&)> done) {
  Do([this, checkpoint, done = std::move(done)] {
    absl::Status deleting;
    done(KeepCheckpoint(checkpoint, open_, &deleting));
    if (!deleting.ok()) {
      LogWarning("job %d: old checkpoints are not deleted: %s", checkpoint.manifest.job,
                 deleting.message());
    }
  });
}

}  // namespace strata::server
