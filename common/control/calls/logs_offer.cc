#include "common/control/calls/logs_offer.h"

#include <grpcpp/client_context.h>

#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/control/calls/channel_to.h"
#include "common/control/channel.h"
#include "common/control/redial.h"
#include "common/limits/limits.h"
#include "common/log.h"
#include "proto/logs.grpc.pb.h"

namespace strata::control {
namespace {

// How often logs that are followed are looked at.
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
constexpr absl::Duration kConnect = absl::Seconds(5);
// The mean pause before a stream is tried again.
constexpr absl::Duration kPause = absl::Seconds(1);
// The same once there was one: where a coordinator begins again, sessions come first, and the
// handshakes of a thousand workers more would keep them away.
constexpr absl::Duration kPauseAfterBreak = absl::Seconds(20);
// Without an answer to a ping. Nothing hangs on a stream that nobody uses.
constexpr absl::Duration kSilence = absl::Minutes(1);
// Where the coordinator takes none.
constexpr absl::Duration kPauseWhenRefused = absl::Seconds(30);
// A stream that has lasted so long was taken.
constexpr absl::Duration kTakenAfter = absl::Seconds(1);

class GrpcLogsOffer final : public LogsOffer {
 public:
  explicit GrpcLogsOffer(Options options)
      : options_(std::move(options)),
        round_(options_.coordinator),
        redial_(absl::Now()),
        thread_([this] { Run(); }) {}
  ~GrpcLogsOffer() override { Stop(); }

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
    while (true) {
      const absl::Time begun = absl::Now();
      const absl::Status status = RunLine();
      if (absl::Now() - begun > kTakenAfter && absl::IsUnavailable(status)) {
        taken_ = true;
        redial_.OnBroken(absl::Now());
        round_.OnServed();
      }
      const bool all_tried = round_.OnFailed(std::string(status.message()));
      absl::MutexLock lock(&mutex_);
      if (stopped_) return;
      if (!all_tried) continue;
      const bool refused = !absl::IsUnavailable(status) && !absl::IsCancelled(status);
      if (refused) Warn(status);
      const absl::Duration mean = refused ? kPauseWhenRefused : taken_ ? kPauseAfterBreak : kPause;
      mutex_.AwaitWithTimeout(absl::Condition(&stopped_), redial_.Pause(absl::Now(), mean));
      if (stopped_) return;
    }
  }

  // Says it once.
  void Warn(const absl::Status& why) {
    // A coordinator of an earlier version has no such call, which its users see.
    if (absl::IsUnimplemented(why) || why.message() == warned_of_) return;
    warned_of_ = std::string(why.message());
    LogWarning("logs cannot be looked at from elsewhere: %s", warned_of_);
  }

  // Connects, and serves until the stream ends, with the reason.
  absl::Status RunLine() {
    const auto channel = ChannelTo(options_.coordinator, round_, options_.credentials,
                                   absl::Now() + kConnect, kSilence);
    if (!channel.ok()) return channel.status();
    const auto stub = proto::Logs::NewStub(*channel);
    grpc::ClientContext context;
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return absl::CancelledError("");
      context_ = &context;
      ended_ = false;
      wanted_.clear();
    }
    const std::unique_ptr<Stream> stream = stub->Offer(&context);
    std::thread listener([this, &stream] { Listen(stream.get()); });
    proto::LogPart offered;
    offered.mutable_offered()->set_worker(options_.worker);
    if (stream->Write(offered)) Serve(stream.get());
    // Not cancelled here: the stream has ended, and why is to be heard.
    listener.join();
    const absl::Status status = FromGrpc(stream->Finish());
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
    return status.ok() ? absl::UnavailableError("closed by the coordinator") : status;
  }

  // Reads what the coordinator wants until the stream ends.
  void Listen(Stream* stream) {
    proto::LogWanted wanted;
    while (stream->Read(&wanted)) {
      absl::MutexLock lock(&mutex_);
      wanted_.push_back(std::move(wanted));
      // Nobody who looks at logs says so much.
      if (wanted_.size() > kQueuedMessagesMax && context_ != nullptr) context_->TryCancel();
    }
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  // What is wanted next. Waits for it up to `until`; nullopt: nothing is, or the stream has ended.
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

  // Sends what is wanted until the stream ends.
  void Serve(Stream* stream) {
    const std::unique_ptr<LogsSource> source = options_.new_source();
    absl::Time until = absl::InfiniteFuture();
    while (true) {
      while (const std::optional<proto::LogWanted> wanted = NextWanted(until)) {
        source->OnWanted(*wanted);
        until = absl::InfinitePast();
      }
      {
        absl::MutexLock lock(&mutex_);
        if (ended_) return;
      }
      const LogsSource::Step step = source->Next();
      if (step.part.has_value() && !stream->Write(*step.part)) return;
      until = step.goes_on        ? absl::InfinitePast()
              : source->Watches() ? absl::Now() + kLookEvery
                                  : absl::InfiniteFuture();
    }
  }

  const Options options_;
  AddressRound round_;
  Redial redial_;
  bool taken_ = false;  // there was a stream
  std::string warned_of_;

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = true;  // the present stream
  std::deque<proto::LogWanted> wanted_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to cancel
  std::thread thread_;                                              // the last: it uses the others
};

}  // namespace

std::unique_ptr<LogsOffer> LogsOffer::Start(Options options) {
  return std::make_unique<GrpcLogsOffer>(std::move(options));
}

}  // namespace strata::control
