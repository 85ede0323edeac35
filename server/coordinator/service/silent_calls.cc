#include "server/coordinator/service/silent_calls.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace strata::server {

SilentCalls::Call::Call(SilentCalls* calls, std::string who, grpc::ServerContext* context)
    : calls_(calls), who_(std::move(who)), reach_(std::make_shared<Reach>()) {
  {
    absl::MutexLock lock(&reach_->mutex);
    reach_->context = context;
  }
  alarm_.Set(absl::ToChronoTime(absl::Now() + kRequestPatience), [reach = reach_](bool is_due) {
    if (!is_due) return;
    absl::MutexLock lock(&reach->mutex);
    if (reach->context != nullptr) reach->context->TryCancel();
  });
}

SilentCalls::Call::~Call() {
  {
    absl::MutexLock lock(&reach_->mutex);
    reach_->context = nullptr;
  }
  alarm_.Cancel();
  calls_->End(who_);
}

absl::StatusOr<std::unique_ptr<SilentCalls::Call>> SilentCalls::Begin(
    const std::string& who, grpc::ServerContext* context) {
  {
    absl::MutexLock lock(&mutex_);
    uint32_t& open = open_[who];
    if (open == kSilentCallsMax) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "%s has %d calls open that do not say what they ask for", who, kSilentCallsMax));
    }
    ++open;
  }
  return std::make_unique<Call>(this, who, context);
}

void SilentCalls::End(const std::string& who) {
  absl::MutexLock lock(&mutex_);
  const auto it = open_.find(who);
  if (--it->second == 0) open_.erase(it);
}

}  // namespace strata::server
