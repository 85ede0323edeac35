#include "common/control/logs_offer.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/channel.h"
#include "common/log.h"
#include "common/os/limits.h"
#include "proto/logs.grpc.pb.h"

namespace strata::control {
namespace {

// Interval of polling followed logs.
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
// Pause after a stream that ended while its connection continues,
constexpr absl::Duration kOfferPause = absl::Seconds(1);
// and after a refusal by the coordinator.
constexpr absl::Duration kPauseWhenRefused = absl::Seconds(30);

class GrpcLogsOffer final : public LogsOffer {
 public:
  explicit GrpcLogsOffer(Options options)
      : options_(std::move(options)), thread_([this] { Run(); }) {}
  ~GrpcLogsOffer() override { Stop(); }

  void OnLine(std::shared_ptr<grpc::Channel> line) override {
    absl::MutexLock lock(&mutex_);
    line_ = std::move(line);
    if (context_ != nullptr) context_->TryCancel();
  }

  void Stop() override {
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      if (context_ != nullptr) context_->TryCancel();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Stream = grpc::ClientReaderWriter<proto::LogPart, proto::LogWanted>;

  void Run() {
    while (const std::shared_ptr<grpc::Channel> line = NextLine()) {
      const absl::Status status = RunOn(line);
      const auto has_news = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !IsOn(line); };
      const auto goes_on = [&] {
        absl::MutexLock lock(&mutex_);
        return !has_news();
      };
      if (!goes_on()) continue;
      // A coordinator that stops ends its streams one after the other.
      const bool is_cut = absl::IsUnavailable(status) || absl::IsCancelled(status);
      if (!is_cut) Warn(status);
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&has_news), is_cut ? kOfferPause : kPauseWhenRefused);
    }
  }

  // Neither stopped nor moved to another connection.
  bool IsOn(const std::shared_ptr<grpc::Channel>& line) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !stopped_ && line_ == line;
  }

  // Null: this object was stopped.
  std::shared_ptr<grpc::Channel> NextLine() {
    absl::MutexLock lock(&mutex_);
    const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopped_ || line_ != nullptr;
    };
    mutex_.Await(absl::Condition(&has_news));
    return stopped_ ? nullptr : line_;
  }

  // Logs each reason once.
  void Warn(const absl::Status& why) {
    // A coordinator of an earlier version lacks the call, and tells its users so.
    if (absl::IsUnimplemented(why) || why.message() == warned_of_) return;
    warned_of_ = std::string(why.message());
    LogWarning("logs cannot be looked at from elsewhere: %s", warned_of_);
  }

  // Serves a stream on `line` until it ends, with the reason.
  absl::Status RunOn(const std::shared_ptr<grpc::Channel>& line) {
    const auto stub = proto::Logs::NewStub(line);
    grpc::ClientContext context;
    {
      absl::MutexLock lock(&mutex_);
      if (!IsOn(line)) return absl::CancelledError("");
      context_ = &context;
      ended_ = false;
      wanted_.clear();
      under_way_bytes_ = 0;
    }
    const std::unique_ptr<Stream> stream = stub->Offer(&context);
    std::thread listener([this, &stream] { Listen(stream.get()); });
    proto::LogPart offered;
    offered.mutable_offered()->set_worker(options_.worker);
    if (stream->Write(offered)) Serve(stream.get());
    // Without cancelling: the stream has ended, and its reason must arrive.
    listener.join();
    const absl::Status status = FromGrpc(stream->Finish());
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
    return status.ok() ? absl::UnavailableError("closed by the coordinator") : status;
  }

  // Reads the coordinator's requests until the stream ends.
  void Listen(Stream* stream) {
    proto::LogWanted wanted;
    while (stream->Read(&wanted)) {
      absl::MutexLock lock(&mutex_);
      if (wanted.has_arrived_bytes()) {
        under_way_bytes_ -= std::min<size_t>(under_way_bytes_, wanted.arrived_bytes());
        continue;
      }
      wanted_.push_back(std::move(wanted));
      // No legitimate reader sends that many requests.
      if (wanted_.size() > kQueuedMessagesMax && context_ != nullptr) context_->TryCancel();
    }
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  // Returns the next request, waiting up to `until`; nullopt: there is none, or the stream has
  // ended.
  std::optional<proto::LogWanted> NextWanted(absl::Time until) {
    absl::MutexLock lock(&mutex_);
    const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_ || !wanted_.empty();
    };
    mutex_.AwaitWithDeadline(absl::Condition(&has_news), until);
    if (ended_ || wanted_.empty()) return std::nullopt;
    proto::LogWanted wanted = std::move(wanted_.front());
    wanted_.pop_front();
    return wanted;
  }

  // Waits until more bytes may be in flight. Returns false if the stream has ended.
  bool AwaitRoom() {
    absl::MutexLock lock(&mutex_);
    const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ended_ || under_way_bytes_ < kUnderWayBytesMax;
    };
    mutex_.Await(absl::Condition(&has_news));
    return !ended_;
  }

  bool Write(Stream* stream, const proto::LogPart& part) {
    {
      absl::MutexLock lock(&mutex_);
      under_way_bytes_ += part.ByteSizeLong();
    }
    return stream->Write(part);
  }

  // Serves requests until the stream ends.
  void Serve(Stream* stream) {
    const std::unique_ptr<LogsSource> source = options_.new_source();
    absl::Time until = absl::InfiniteFuture();
    while (AwaitRoom()) {
      while (const std::optional<proto::LogWanted> wanted = NextWanted(until)) {
        source->OnWanted(*wanted);
        until = absl::InfinitePast();
      }
      {
        absl::MutexLock lock(&mutex_);
        if (ended_) return;
      }
      const LogsSource::Step step = source->Next();
      if (step.part.has_value() && !Write(stream, *step.part)) return;
      until = step.goes_on        ? absl::InfinitePast()
              : source->Watches() ? absl::Now() + kLookEvery
                                  : absl::InfiniteFuture();
    }
  }

  const Options options_;
  std::string warned_of_;

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<grpc::Channel> line_ ABSL_GUARDED_BY(mutex_);  // null: there is none
  // State of the current stream.
  bool ended_ ABSL_GUARDED_BY(mutex_) = true;
  std::deque<proto::LogWanted> wanted_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to cancel
  std::thread thread_;                                              // last member: it uses the
                                                                    // others
};

}  // namespace

std::unique_ptr<LogsOffer> LogsOffer::Start(Options options) {
  return std::make_unique<GrpcLogsOffer>(std::move(options));
}

}  // namespace strata::control
