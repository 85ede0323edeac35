#ifndef STRATA_SERVER_COORDINATOR_SERVICE_BACKGROUND_WORK_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_BACKGROUND_WORK_H_

#include <atomic>
#include <functional>
#include <list>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/jobs/checkpoint_work.h"

namespace strata::server {

// Runs work that may block, each piece on a thread of its own.
//
// Threads: one.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  ~BackgroundWork() { WaitForAll(); }
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  void Do(std::function<void()> work);
  // Waits for unfinished work.
  void WaitForAll();

 private:
  struct Piece {
    std::atomic<bool> done = false;
    std::thread thread;
  };

  std::list<Piece> pieces_;
};

// Runs jobs' store work, each piece on a thread of its own: a stalled store blocks only its own
// job, never the coordinator.
//
// Threads: one; the callbacks come from others.
class CheckpointKeeper {
 public:
  explicit CheckpointKeeper(StoreOpener open) : open_(std::move(open)) {}
  // Waits for unfinished work. Idempotent.
  void Stop() { work_.WaitForAll(); }

  void Find(const CheckpointQuery& query,
            std::function<void(const absl::StatusOr<CheckpointFound>&)> done);
  void Keep(const CheckpointToKeep& checkpoint, std::function<void(const absl::Status&)> done);

 private:
  const StoreOpener open_;
  BackgroundWork work_;  // uses the above
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_BACKGROUND_WORK_H_
