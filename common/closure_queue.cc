#include "common/closure_queue.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace strata {

absl::Status ClosureQueue::Post(Closure closure) {
  bool was_empty = false;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return absl::FailedPreconditionError("posted to a closed queue");
    if (closures_.size() >= capacity_) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("queue full: %d closures wait", closures_.size()));
    }
    was_empty = closures_.empty();
    closures_.push_back(std::move(closure));
  }
  if (was_empty && wake_) wake_();
  return absl::OkStatus();
}

size_t ClosureQueue::RunAll() {
  std::vector<Closure> batch;
  {
    absl::MutexLock lock(&mutex_);
    batch.swap(closures_);
  }
  for (Closure& closure : batch) closure();
  return batch.size();
}

void ClosureQueue::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

}  // namespace strata
