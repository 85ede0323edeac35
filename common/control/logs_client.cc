#include "common/control/logs_client.h"

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/control/channel.h"
#include "common/control/dial.h"
#include "proto/logs.grpc.pb.h"

namespace strata::control {

bool LogsClient::Stopped() {
  absl::MutexLock lock(&mutex_);
  return stopped_;
}

void LogsClient::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

absl::Status LogsClient::ReadFrom(const std::shared_ptr<grpc::Channel>& channel,
                                  const proto::ReadLogs& request,
                                  const std::function<void(const proto::LogLines&)>& on_lines) {
  const auto stub = proto::Logs::NewStub(channel);
  grpc::ClientContext context;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return absl::CancelledError("");
    context_ = &context;
  }
  const absl::Cleanup forget = [this] {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
  };
  const auto reader = stub->Read(&context, request);
  proto::LogLines lines;
  while (reader->Read(&lines)) on_lines(lines);
  return FromGrpc(reader->Finish());
}

absl::Status LogsClient::Read(const proto::ReadLogs& request,
                              const std::function<void(const proto::LogLines&)>& on_lines) {
  const absl::Time deadline = absl::Now() + options_.deadline;
  AddressRound round(options_.coordinator);
  while (true) {
    const auto channel = ChannelTo(options_.coordinator, round, options_.credentials, deadline);
    if (Stopped()) return absl::CancelledError("no longer looked at");
    absl::Status status = channel.status();
    if (channel.ok()) {
      status = ReadFrom(*channel, request, on_lines);
      if (Stopped()) return absl::CancelledError("no longer looked at");
      if (absl::IsUnauthenticated(status)) {
        return Refused(round.current(), std::string(status.message()));
      }
      const bool is_cut = absl::IsUnavailable(status) || absl::IsCancelled(status);
      if (is_cut && !IsStandbyText(std::string(status.message()))) {
        return absl::UnavailableError(
            absl::StrCat("coordinator at ", round.current(),
                         " has ended the stream of logs: ", status.message()));
      }
    }
    if (!absl::IsUnavailable(status)) return status;
    const bool all_tried = round.OnFailed(std::string(status.message()));
    if (absl::Now() >= deadline) {
      return GaveUp(options_.coordinator, options_.credentials, options_.deadline, round.Reasons());
    }
    if (all_tried) absl::SleepFor(kPauseBetweenRounds);
  }
}

}  // namespace strata::control
