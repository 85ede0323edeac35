#ifndef STRATA_WORKER_CLIENT_NCCL_RING_STOPS_H_
#define STRATA_WORKER_CLIENT_NCCL_RING_STOPS_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace strata::nccl {

// Where a rank stands that continues without ranks that die (on_loss: DROP), and how it says so:
// once it has answered how many steps it has made, it makes none before it forms the ring that it
// was stopped for. So whoever decides how all continue knows how far each of them is.
//
// Threads: any.
class RingStops {
 public:
  struct Answer {
    uint32_t number = 0;     // of the ring that the rank has stopped for
    bool has_begun = false;  // it has the job's first weights
    uint64_t steps = 0;      // that it has made
    bool is_over = false;    // it knows that all ranks have made all steps
  };

  // `number`: of the ring in hand. `asked` returns the highest number of a ring that the rank is to
  // stop for; `answer` takes its answer to each, once, on the thread that has found it to be asked.
  RingStops(uint32_t number, std::function<uint32_t()> asked,
            std::function<void(const Answer&)> answer)
      : asked_(std::move(asked)), answer_(std::move(answer)), number_(number), answered_(number) {}

  // Answers what is asked. Errors: Aborted: the ring in hand is stopped; not before Begin, until
  // which the rank cannot continue in another one.
  absl::Status Check();
  // True if the ring in hand is not the one to continue with, by what was answered.
  bool is_stopped() const;

  // The rank has the first weights.
  void Begin();
  // It has made so many steps; or all ranks have made all of them. False: it has said something
  // else, so that it is not to be.
  bool Make(uint64_t steps);
  bool End();
  // The ring of this number is in hand. False: one with a higher number is to come.
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
