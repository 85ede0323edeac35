#include "worker/nccl/communicator_watch.h"

#include <utility>

#include "absl/time/time.h"

namespace strata::nccl {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

CommunicatorWatch::CommunicatorWatch(device::Communicator* communicator,
                                     device::StillWanted still_wanted)
    : communicator_(communicator),
      still_wanted_(std::move(still_wanted)),
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

void CommunicatorWatch::Run() {
  absl::Status found;
  while (found.ok()) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&ends_), kLook)) return;
    }
    // Where a peer is gone, the job may know whose fault that is.
    found = still_wanted_();
    if (found.ok()) found = communicator_->Error();
  }
  {
    absl::MutexLock lock(&mutex_);
    status_ = std::move(found);
  }
  // After that: whom it lets go finds the cause.
  communicator_->Abort();
}

}  // namespace strata::nccl
