#include "worker/client/nccl/communicator_watch.h"

#include <utility>

#include "absl/time/clock.h"

namespace strata::nccl {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

CommunicatorWatch::CommunicatorWatch(device::Communicator* communicator,
                                     device::StillWanted still_wanted, absl::Duration for_the_job)
    : communicator_(communicator),
      still_wanted_(std::move(still_wanted)),
      for_the_job_(for_the_job),
      thread_([this] { Run(); }) {}

CommunicatorWatch::~CommunicatorWatch() { Stop(); }

void CommunicatorWatch::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

absl::Status CommunicatorWatch::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status CommunicatorWatch::FindCause(absl::Status error) {
  absl::MutexLock lock(&mutex_);
  if (met_.ok()) met_ = error;
  mutex_.Await(absl::Condition(&looks_no_more_));
  return status_.ok() ? error : status_;
}

void CommunicatorWatch::Run() {
  const absl::Status found = Look();
  {
    absl::MutexLock lock(&mutex_);
    status_ = found;
    looks_no_more_ = true;
  }
  // Only then: the callers that it releases look for the cause.
  if (!found.ok()) communicator_->Abort();
  while (absl::IsAborted(found)) {
    still_wanted_().IgnoreError();
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&ends_), kLook)) break;
  }
}

absl::Status CommunicatorWatch::Look() {
  absl::Status error;
  absl::Time give_up = absl::InfiniteFuture();
  while (absl::Now() < give_up) {
    if (absl::Status status = still_wanted_(); !status.ok()) return status;
    absl::Status seen = communicator_->Error();
    absl::MutexLock lock(&mutex_);
    seen.Update(met_);
    if (error.ok() && !seen.ok()) {
      error = std::move(seen);
      give_up = absl::Now() + for_the_job_;
    }
    if (mutex_.AwaitWithTimeout(absl::Condition(&ends_), kLook)) break;
  }
  return error;
}

}  // namespace strata::nccl
