#include "common/control/session.h"

#include <algorithm>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/control/channel.h"
#include "common/control/inbox.h"
#include "common/control/outbox.h"
#include "common/control/probe.h"
#include "common/control/redial.h"
#include "common/control/renewal.h"
#include "common/control/session_stream.h"
#include "common/ipc/unix_socket.h"
#include "common/job/job.h"
#include "common/limits/limits.h"
#include "common/log.h"
#include "common/version.h"

namespace strata::control {
namespace {

constexpr absl::Duration kRegisterTimeout = absl::Seconds(10);
constexpr absl::Duration kStopTimeout = absl::Seconds(2);
// With several addresses: a host that is away does not answer, and others do.
constexpr absl::Duration kConnectOfSeveral = absl::Seconds(1);
// The mean pause where all that answer stand by.
constexpr absl::Duration kPauseAtStandby = absl::Milliseconds(250);

uint64_t RandomId() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

class GrpcSession final : public Session {
 public:
  GrpcSession(Options options, Callbacks callbacks)
      : options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        renewal_(options_.credentials),
        round_(options_.coordinator) {
    proto::Register& registration = options_.registration;
    if (registration.protocol_version() == 0) registration.set_protocol_version(kProtocolVersion);
    registration.set_version(STRATA_VERSION);
    if (registration.daemon_id() == 0) registration.set_daemon_id(RandomId());
  }
  ~GrpcSession() override {
    Stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() override {
    thread_ = std::thread([this] { Run(); });
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &GrpcSession::HasStarted));
    return registered_once_ ? absl::OkStatus() : end_;
  }

  void Send(proto::DaemonMessage message) override {
    absl::MutexLock lock(&mutex_);
    leaves_ = leaves_ || message.has_leaving();
    if (!outbox_.Add(std::move(message))) overflown_ = true;
  }

  Use use() override {
    absl::MutexLock lock(&mutex_);
    return {outbox_.messages() + inbox_.messages(), outbox_.bytes() + inbox_.bytes(),
            std::max(outbox_.message_bytes_max(), inbox_.message_bytes_max())};
  }

  void Stop() override {
    {
      absl::MutexLock lock(&mutex_);
      if (!stop_at_.has_value()) stop_at_ = absl::Now() + kStopTimeout;
    }
    if (!thread_.joinable() || thread_.get_id() == std::this_thread::get_id()) return;
    {
      // A write that hangs is ended, should the session's thread not come back in time.
      absl::MutexLock lock(&mutex_);
      const absl::Duration patience = kStopTimeout + absl::Milliseconds(200);
      if (!mutex_.AwaitWithTimeout(absl::Condition(&ended_), patience) && line_ != nullptr) {
        line_->Cancel();
      }
    }
    thread_.join();
  }

 private:
  // ---- the session's thread ----

  void Run() {
    Redial redial(absl::Now());
    absl::Status end = absl::CancelledError("stopped");
    while (true) {
      registered_ = false;
      const absl::Status status = RunLine(Limits(redial));
      if (registered_) redial.OnBroken(absl::Now());
      if (registered_) round_.OnServed();
      if (Stopping()) break;
      const bool refused = absl::IsFailedPrecondition(status) ||
                           (absl::IsResourceExhausted(status) && !RegisteredOnce());
      if (refused || Overflown()) {
        end = refused ? status : TooMuchWaits();
        break;
      }
      const absl::Duration patience =
          RegisteredOnce() ? options_.reconnect_deadline : options_.connect_deadline;
      const bool all_tried = round_.OnFailed(std::string(status.message()));
      if (redial.Away(absl::Now()) >= patience) {
        end = Unreachable(options_.coordinator, absl::FormatDuration(patience), WhyNot());
        break;
      }
      // Many sessions that broke together do not go on together.
      if (!all_tried && !registered_) continue;
      const bool waits = all_tried && round_.knows_standby();
      PauseUnlessStopping(
          redial.Pause(absl::Now(), waits ? kPauseAtStandby : absl::ZeroDuration()));
    }
    const bool lost = RegisteredOnce() && !Stopping();
    if (lost) callbacks_.on_lost(end);
    absl::MutexLock lock(&mutex_);
    end_ = end;
    ended_ = true;
  }

  DialLimits Limits(const Redial& redial) const {
    DialLimits limits = redial.Limits(absl::Now());
    if (!round_.is_one()) limits.connect = std::min(limits.connect, kConnectOfSeveral);
    return limits;
  }

  // In words. Where TLS is spoken and this is not, the line itself only ends.
  std::string WhyNot() {
    const bool is_plain = options_.credentials.kind() == Credentials::Kind::kInsecure &&
                          !UnixPath(options_.coordinator);
    const bool is_told = IsStandbyText(round_.Reasons());
    if (!is_plain || is_told || !round_.is_one() || RegisteredOnce()) return round_.Reasons();
    return WhyUnreachable(options_.coordinator, /*insecure=*/true);
  }

  // Dials, registers and serves one line until it breaks or the session stops.
  absl::Status RunLine(const DialLimits& limits) {
    {
      absl::MutexLock lock(&mutex_);
      inbox_.Clear();
      closed_.reset();
    }
    const std::unique_ptr<SessionStream> line =
        SessionStream::Dial(round_.current(), options_.credentials, limits,
                            {.on_message = [this](auto message) { Take(std::move(message)); },
                             .on_closed = [this](absl::Status status) { Close(status); }});
    SetLine(line.get());
    absl::Status status =
        RegisterOn(line.get(), round_.is_one() ? kRegisterTimeout
                                               : std::min(kRegisterTimeout, limits.handshake));
    if (status.ok()) {
      if (callbacks_.on_line) callbacks_.on_line(line->channel());
      status = Serve(line.get());
      if (callbacks_.on_line) callbacks_.on_line(nullptr);
      // What came before the break still counts.
      while (std::optional<proto::CoordinatorMessage> message = TakenMessage()) {
        Deliver(*message);
      }
    }
    SetLine(nullptr);
    absl::MutexLock lock(&mutex_);
    outbox_.OnBroken(closed_.has_value() ? closed_at_ : absl::Now());
    return status;
  }

  absl::Status RegisterOn(SessionStream* line, absl::Duration timeout) {
    options_.registration.set_attempt(options_.registration.attempt() + 1);
    options_.registration.set_leaves(Leaves());
    proto::DaemonMessage message;
    *message.mutable_register_() = options_.registration;
    for (uint32_t job : callbacks_.running_jobs())
      message.mutable_register_()->add_running_jobs(job);
    if (!line->Write(message)) return WaitClosed();
    const std::optional<proto::CoordinatorMessage> reply = NextMessage(absl::Now() + timeout);
    if (!reply.has_value()) {
      line->Cancel();
      return WaitClosed();
    }
    if (reply->has_rejected()) {
      return absl::FailedPreconditionError(absl::StrCat("coordinator at ", round_.current(),
                                                        " refused: ", reply->rejected().reason()));
    }
    if (!reply->has_registered()) return absl::UnavailableError("no answer to the registration");
    const uint64_t epoch = reply->registered().epoch();
    if (WasDeposed(epoch, options_.registration.epoch())) {
      line->Cancel();
      return absl::UnavailableError(absl::StrCat("was deposed: its epoch is ", epoch, ", after ",
                                                 options_.registration.epoch(), " was there"));
    }
    options_.registration.set_epoch(epoch);
    options_.registration.set_cluster_id(reply->registered().cluster_id());
    heartbeat_every_ = absl::Milliseconds(std::max(1u, reply->registered().heartbeat_ms()));
    renewal_.OnRegistered(reply->registered().authority(), absl::Now());
    registered_ = true;
    absl::MutexLock lock(&mutex_);
    registered_once_ = true;
    return absl::OkStatus();
  }

  absl::Status Serve(SessionStream* line) {
    absl::Time next_heartbeat = absl::Now();
    while (true) {
      if (absl::Now() >= next_heartbeat) {
        proto::DaemonMessage message;
        *message.mutable_heartbeat() = callbacks_.heartbeat();
        if (!line->Write(message)) return WaitClosed();
        const std::optional<proto::DaemonMessage> renew = renewal_.Due(absl::Now());
        if (renew.has_value() && !line->Write(*renew)) return WaitClosed();
        next_heartbeat = absl::Now() + heartbeat_every_;
      }
      if (std::optional<proto::DaemonMessage> message = NextToSend()) {
        if (!line->Write(*message)) return WaitClosed();
        MarkSent();
        continue;
      }
      if (Overflown()) return TooMuchWaits();
      if (Stopping()) {
        line->Finish();
        return WaitClosed();
      }
      const std::optional<proto::CoordinatorMessage> message = NextMessage(next_heartbeat);
      if (message.has_value()) {
        Deliver(*message);
      } else if (Closed()) {
        return WaitClosed();
      }
    }
  }

  void Deliver(const proto::CoordinatorMessage& message) {
    if (!message.has_renewed()) return callbacks_.on_message(message);
    const absl::Status renewed = renewal_.OnRenewed(message.renewed(), absl::Now());
    if (renewed.ok()) return LogInfo("the certificate is renewed");
    LogWarning("the certificate is not renewed: %s", std::string(renewed.message()));
  }

  // The next message, unless the line closes, the session stops, there is something to send, or
  // `deadline` comes first.
  std::optional<proto::CoordinatorMessage> NextMessage(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithDeadline(absl::Condition(this, &GrpcSession::HasWork), deadline);
    return inbox_.Pop();
  }

  std::optional<proto::CoordinatorMessage> TakenMessage() {
    absl::MutexLock lock(&mutex_);
    return inbox_.Pop();
  }

  std::optional<proto::DaemonMessage> NextToSend() {
    absl::MutexLock lock(&mutex_);
    if (outbox_.empty() || (stop_at_.has_value() && absl::Now() > *stop_at_)) return std::nullopt;
    return *outbox_.Next();
  }

  void MarkSent() {
    absl::MutexLock lock(&mutex_);
    outbox_.MarkSent(absl::Now());
  }

  // Why the line ended; breaks it when that does not come by itself.
  absl::Status WaitClosed() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &GrpcSession::IsClosed), kStopTimeout);
    if (!closed_.has_value()) return absl::UnavailableError("no answer");
    if (absl::IsResourceExhausted(*closed_)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("coordinator at ", round_.current(), ": ", closed_->message()));
    }
    // The coordinator's word. That a certificate is not valid at this time may pass, as a clock may
    // be wrong; that it was taken back does not.
    if (absl::IsPermissionDenied(*closed_) ||
        (absl::IsUnauthenticated(*closed_) && !registered_once_)) {
      return Refused(round_.current(), std::string(closed_->message()));
    }
    // There are no keys for it, or something else answers there, which may pass.
    if (absl::IsFailedPrecondition(*closed_) && !registered_once_) return *closed_;
    // FailedPrecondition means "refused" to our caller; a broken line is not that.
    return absl::UnavailableError(closed_->message());
  }

  void PauseUnlessStopping(absl::Duration pause) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &GrpcSession::IsStopping), pause);
  }

  void SetLine(SessionStream* line) {
    absl::MutexLock lock(&mutex_);
    line_ = line;
  }
  bool Overflown() {
    absl::MutexLock lock(&mutex_);
    return overflown_;
  }
  bool Leaves() {
    absl::MutexLock lock(&mutex_);
    return leaves_;
  }
  absl::Status TooMuchWaits() const {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kQueuedMessagesMax, " messages or ", kQueuedBytesMax >> 20,
                     " MiB wait for the coordinator at ", options_.coordinator));
  }
  bool Stopping() {
    absl::MutexLock lock(&mutex_);
    return IsStopping();
  }
  bool RegisteredOnce() {
    absl::MutexLock lock(&mutex_);
    return registered_once_;
  }
  bool Closed() {
    absl::MutexLock lock(&mutex_);
    return IsClosed();
  }

  // ---- the line's reader thread ----

  void Take(proto::CoordinatorMessage message) {
    absl::MutexLock lock(&mutex_);
    // A full inbox leaves the rest to the connection's flow control; at the line's end nobody
    // empties it any more.
    mutex_.Await(absl::Condition(this, &GrpcSession::HasRoom));
    inbox_.Add(std::move(message));
  }
  void Close(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    closed_ = std::move(status);
    closed_at_ = absl::Now();
  }

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return inbox_.HasRoom() || line_ == nullptr;
  }
  bool HasStarted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return registered_once_ || ended_;
  }
  bool IsStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_at_.has_value(); }
  bool IsClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_.has_value(); }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !inbox_.empty() || overflown_ || IsClosed() || IsStopping() ||
           (registered_ && !outbox_.empty());
  }

  Options options_;  // after construction the session's thread's
  const Callbacks callbacks_;
  std::thread thread_;

  // The session's thread's.
  bool registered_ = false;  // on the present line
  absl::Duration heartbeat_every_;
  Renewal renewal_;
  AddressRound round_;

  absl::Mutex mutex_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool overflown_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaves_ ABSL_GUARDED_BY(mutex_) = false;                 // this daemon is about to end
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);  // of the present line
  absl::Time closed_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> stop_at_ ABSL_GUARDED_BY(mutex_);
  SessionStream* line_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to cancel; lives while it is set
  bool registered_once_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Session> Session::Create(Options options, Callbacks callbacks) {
  return std::make_unique<GrpcSession>(std::move(options), std::move(callbacks));
}

}  // namespace strata::control
