#ifndef STRATA_SERVER_COORDINATOR_SERVICE_BACKGROUND_WORK_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_BACKGROUND_WORK_H_

#include <atomic>
#include <functional>
#include <list>
#include <thread>

namespace strata::server {

// Work that may block, each piece on a thread of its own.
//
// Threads: one.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  ~BackgroundWork() { WaitForAll(); }
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  void Do(std::function<void()> work);
  // Waits for the work in hand.
  void WaitForAll();

 private:
  struct Piece {
    std::atomic<bool> done = false;
    std::thread thread;
  };

  std::list<Piece> pieces_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_BACKGROUND_WORK_H_
