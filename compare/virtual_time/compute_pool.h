#ifndef STRATA_COMPARE_VIRTUAL_TIME_COMPUTE_POOL_H_
#define STRATA_COMPARE_VIRTUAL_TIME_COMPUTE_POOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "training/nn/network/network.h"

namespace strata::compare {

// Threads that compute gradients, each with its own network, in the order of the requests. A caller
// that waits for one computes as well, so a pool of one thread starts none.
//
// Threads: Add and Wait from the owner's.
class ComputePool {
 public:
  // State that a thread keeps from task to task.
  struct Worker {
    std::unique_ptr<training::Network> network;
    std::vector<float> images;
    std::vector<uint16_t> labels;
  };
  using Task = std::function<void(Worker* worker)>;
  using Ticket = std::shared_ptr<absl::Notification>;

  // `threads` >= 1, including the owner's.
  explicit ComputePool(uint32_t threads);
  // Drops tasks that have not begun.
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  Ticket Add(Task task);
  // Blocks until the task is done.
  void Wait(const Ticket& ticket);

 private:
  struct Waiting {
    Task task;
    Ticket ticket;
  };

  void Run();
  static void Do(const Waiting& waiting, Worker* worker);

  Worker own_;  // the owner's
  absl::Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_COMPUTE_POOL_H_
