#ifndef STRATA_WORKER_CLIENT_NCCL_RING_STOPS_H_
#define STRATA_WORKER_CLIENT_NCCL_RING_STOPS_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace strata::nccl {

// The progress of a rank that continues without ranks that die (on_loss: DROP), and its reports:
// once it has reported how many steps it has made, it makes none before it forms the ring for which
// it was stopped. So the coordinator knows the progress of each rank when it decides how all
// continue.
//
// Threads: any.
class RingStops {
 public:
  struct Answer {
    uint32_t number = 0;     // of the ring for which the rank has stopped
    bool has_begun = false;  // it has the job's first weights
    uint64_t steps = 0;      // number of steps made
    bool is_over = false;    // it knows that all ranks have made all steps
  };

  // `number`: of the current ring. `asked` returns the highest number of a ring for which the rank
  // must stop; `answer` gets its answer to each, once, on the thread that noticed the question.
  RingStops(uint32_t number, std::function<uint32_t()> asked,
            std::function<void(const Answer&)> answer)
      : asked_(std::move(asked)), answer_(std::move(answer)), number_(number), answered_(number) {}

  // Answers a pending question. Errors: Aborted: the current ring is stopped; not before Begin,
  // until which the rank cannot continue in another one.
  absl::Status Check();
  // Returns whether the current ring is obsolete, by what was answered.
  bool is_stopped() const;

  // The rank has the first weights.
  void Begin();
  // It has made `steps` steps; or all ranks have made all of them. Returns false if it has reported
  // something else, so that this must not happen.
  bool Make(uint64_t steps);
  bool End();
  // Makes the ring of this number current. Returns false if one with a higher number is to come.
  bool Form(uint32_t number);

 private:
  bool Stopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answered_ > number_; }

  const std::function<uint32_t()> asked_;
  const std::function<void(const Answer&)> answer_;
  mutable absl::Mutex mutex_;
  uint32_t number_ ABSL_GUARDED_BY(mutex_);
  uint32_t answered_ ABSL_GUARDED_BY(mutex_);  // the newest number
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_RING_STOPS_H_
