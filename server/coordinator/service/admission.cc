#include "server/coordinator/service/admission.h"

#include "absl/strings/str_format.h"
#include "common/control/session.h"
#include "common/log.h"
#include "common/os/process_use.h"

namespace strata::server {

using control::AddRefusal;
using control::AddResource;

absl::StatusOr<Gate::Pass> Gate::Enter(const std::string& who) {
  uint64_t refused = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (open_ < open_max_) {
      ++open_;
      return Pass(this);
    }
    refused = ++refused_;
  }
  const absl::Status refusal = absl::ResourceExhaustedError(absl::StrFormat(
      "the coordinator has %d %s open, which is its limit (%s)", open_max_, what_, option_));
  // Logs only at powers of two, in case there are very many.
  if ((refused & (refused - 1)) == 0) {
    LogWarning("refused %s: %s (%d refused)", who, refusal.message(), refused);
  }
  return refusal;
}

void Gate::Leave() {
  absl::MutexLock lock(&mutex_);
  --open_;
}

uint32_t Gate::open() {
  absl::MutexLock lock(&mutex_);
  return open_;
}

uint64_t Gate::refused() {
  absl::MutexLock lock(&mutex_);
  return refused_;
}

void InHand::Add() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &InHand::HasRoom));
  ++count_;
}

void InHand::Done() {
  absl::MutexLock lock(&mutex_);
  --count_;
}

proto::DaemonStatus CoordinatorStatus(Gate* sessions, Gate* calls) {
  const ProcessUse use = MeasureUse();
  proto::DaemonStatus status;
  status.set_name("coordinator");
  status.set_alive(true);
  AddResource("file descriptors", use.descriptors, use.descriptors_max, &status);
  AddResource("connections", sessions->open(), sessions->open_max(), &status);
  AddResource("calls", calls->open(), calls->open_max(), &status);
  AddResource("resident bytes", use.resident_bytes, 0, &status);
  AddRefusal("over the limit of sessions", sessions->refused(), &status);
  AddRefusal("over the limit of calls", calls->refused(), &status);
  return status;
}

}  // namespace strata::server
