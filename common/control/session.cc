#include "common/control/session.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/control/addresses.h"
#include "common/control/channel.h"
#include "common/control/credentials.h"
#include "common/control/dial.h"
#include "common/control/outbox.h"
#include "common/control/redial.h"
#include "common/job/job.h"
#include "common/keys/certificate.h"
#include "common/keys/key_file.h"
#include "common/keys/private_key.h"
#include "common/log.h"
#include "common/os/limits.h"
#include "common/os/unix_socket.h"
#include "common/random.h"
#include "common/version.h"
#include "proto/control.grpc.pb.h"
#include "proto/control.pb.h"

namespace strata::control {
namespace {

// The coordinator's messages on one line that the daemon has not handled yet, in order. Bounded:
// before Add the caller waits for HasRoom. One owner.
class Inbox {
 public:
  bool HasRoom() const { return messages_.size() < kQueuedMessagesMax && bytes_ < kQueuedBytesMax; }
  void Add(proto::CoordinatorMessage message) {
    const size_t bytes = message.ByteSizeLong();
    bytes_ += bytes;
    message_bytes_max_ = std::max(message_bytes_max_, bytes);
    messages_.push_back(std::move(message));
  }
  std::optional<proto::CoordinatorMessage> Pop() {
    if (messages_.empty()) return std::nullopt;
    proto::CoordinatorMessage message = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= message.ByteSizeLong();
    return message;
  }
  void Clear() {
    messages_.clear();
    bytes_ = 0;
  }

  bool empty() const { return messages_.empty(); }
  size_t messages() const { return messages_.size(); }
  size_t bytes() const { return bytes_; }
  // Bytes of the largest message so far.
  size_t message_bytes_max() const { return message_bytes_max_; }

 private:
  std::deque<proto::CoordinatorMessage> messages_;
  size_t bytes_ = 0;
  size_t message_bytes_max_ = 0;
};

// Replaces a daemon's certificate over its session before it ends. Only one in a file is replaced:
// what keeps keys in memory does not live so long.
//
// Threads: one.
class Renewal {
 public:
  explicit Renewal(Credentials credentials) : credentials_(std::move(credentials)) {}

  // A session has begun. `authorities`: SHA-256 in hex of each of the cluster's roots,
  // comma-separated; empty: the coordinator issues no certificates.
  void OnRegistered(const std::string& authorities, absl::Time now);
  // Returns the request for a new certificate when it is due; nothing while an answer is pending.
  std::optional<proto::DaemonMessage> Due(absl::Time now);
  // Takes the answer and writes the file. Errors, after which it is retried later: the
  // coordinator's; those of keys::WriteKeyFile.
  absl::Status OnRenewed(const proto::CertificateRenewed& answer, absl::Time now);

 private:
  absl::Status Replace(const proto::CertificateRenewed& answer, const keys::PrivateKey& key) const;

  const Credentials credentials_;
  absl::Time due_at_ = absl::InfiniteFuture();
  std::optional<keys::PrivateKey> key_;  // of the requested certificate
};

// Pause after a failed renewal.
constexpr absl::Duration kRenewalPause = absl::Minutes(5);

// Returns whether the file trusts exactly those authorities.
bool Trusts(const keys::KeyFile& file, const std::string& authorities) {
  const std::set<std::string> wanted = absl::StrSplit(authorities, ',');
  std::set<std::string> trusted;
  for (const keys::Certificate& root : file.roots) {
    trusted.insert(keys::FingerprintText(root.fingerprint()));
  }
  return trusted == wanted;
}

void Renewal::OnRegistered(const std::string& authorities, absl::Time now) {
  key_.reset();
  due_at_ = absl::InfiniteFuture();
  if (authorities.empty() || credentials_.path().empty()) return;
  const absl::StatusOr<keys::KeyFile> file = credentials_.Keys();
  if (!file.ok()) return;  // it is used at the next connection, which will report why it fails
  due_at_ = Trusts(*file, authorities) ? keys::RenewAt(file->chain.front()) : now;
}

std::optional<proto::DaemonMessage> Renewal::Due(absl::Time now) {
  if (now < due_at_) return std::nullopt;
  due_at_ = now + kRenewalPause;  // if no answer comes
  absl::StatusOr<keys::PrivateKey> key = keys::PrivateKey::Make();
  if (!key.ok()) return std::nullopt;
  const absl::StatusOr<std::string> request = keys::MakeRequestPem(*key);
  if (!request.ok()) return std::nullopt;
  key_ = *std::move(key);
  proto::DaemonMessage message;
  message.mutable_renew()->set_request_pem(*request);
  return message;
}

absl::Status Renewal::OnRenewed(const proto::CertificateRenewed& answer, absl::Time now) {
  if (!key_.has_value()) return absl::FailedPreconditionError("it was not asked for");
  const keys::PrivateKey key = *key_;
  key_.reset();
  const absl::Status replaced =
      answer.error().empty() ? Replace(answer, key) : absl::InternalError(answer.error());
  due_at_ = now + kRenewalPause;
  const absl::StatusOr<keys::KeyFile> file = credentials_.Keys();
  if (replaced.ok() && file.ok()) {
    due_at_ = std::max(due_at_, keys::RenewAt(file->chain.front()));
  }
  return replaced;
}

absl::Status Renewal::Replace(const proto::CertificateRenewed& answer,
                              const keys::PrivateKey& key) const {
  const absl::StatusOr<keys::KeyFile> file =
      keys::ParseKeyFile(key.ToPem() + answer.chain_pem() + answer.roots_pem(), "the answer");
  if (!file.ok()) return file.status();
  return keys::WriteKeyFile(credentials_.path(), *file);
}

// One connection of a session, from dialling to its end; never reused. A reader thread of its own
// brings what arrives.
//
// Threads: Write from one thread at a time; Cancel from any. The callbacks run on the reader thread
// until the destructor, which waits for it, returns.
class SessionStream {
 public:
  struct Callbacks {
    std::function<void(proto::CoordinatorMessage)> on_message;
    // The connection has ended, with the reason; the last call. FailedPrecondition: there are no
    // keys for the coordinator, or something else answers there; Unauthenticated, PermissionDenied:
    // the coordinator's reason.
    std::function<void(absl::Status)> on_closed;
  };

  virtual ~SessionStream() = default;  // cancels
  // Blocks up to about `limits`; if that is not enough, or nobody listens, the connection has ended
  // already.
  static std::unique_ptr<SessionStream> Dial(const std::string& coordinator,
                                             const Credentials& credentials,
                                             const DialLimits& limits, Callbacks callbacks);

  // Passes the message to the connection; may block while its buffers are full. Returns false if
  // the connection is broken; on_closed gives the reason.
  virtual bool Write(const proto::DaemonMessage& message) = 0;
  // Half-closes; the coordinator then closes the connection in order.
  virtual void Finish() = 0;
  // Breaks the connection at once; a Write in progress returns.
  virtual void Cancel() = 0;
  // Null: there never was a connection.
  virtual std::shared_ptr<grpc::Channel> channel() const = 0;
};

// Without an acknowledgement of sent data. Together with the time for a new connection this is well
// below the time after which the coordinator considers a silent daemon lost.
constexpr absl::Duration kSilenceMax = absl::Seconds(2);

// A connection that has ended before it began.
class NoLine final : public SessionStream {
 public:
  bool Write(const proto::DaemonMessage&) override { return false; }
  void Finish() override {}
  void Cancel() override {}
  std::shared_ptr<grpc::Channel> channel() const override { return nullptr; }
};

class GrpcLine final : public SessionStream {
 public:
  GrpcLine(const std::shared_ptr<grpc::Channel>& channel, Callbacks callbacks)
      : callbacks_(std::move(callbacks)),
        channel_(channel),
        stub_(proto::Coordinator::NewStub(channel)),
        stream_(Open()),
        reader_([this] { Read(); }) {}

  ~GrpcLine() override {
    context_.TryCancel();
    reader_.join();
  }

  bool Write(const proto::DaemonMessage& message) override { return stream_->Write(message); }
  void Finish() override { stream_->WritesDone(); }
  void Cancel() override { context_.TryCancel(); }
  std::shared_ptr<grpc::Channel> channel() const override { return channel_; }

 private:
  using Stream = grpc::ClientReaderWriter<proto::DaemonMessage, proto::CoordinatorMessage>;

  // Corked, the call is sent with the first message: so Write is what waits, and Cancel can end
  // that.
  std::unique_ptr<Stream> Open() {
    context_.set_initial_metadata_corked(true);
    return stub_->Session(&context_);
  }

  void Read() {
    proto::CoordinatorMessage message;
    while (stream_->Read(&message)) callbacks_.on_message(std::move(message));
    const absl::Status status = FromGrpc(stream_->Finish());
    callbacks_.on_closed(status.ok() ? absl::UnavailableError("closed by the coordinator")
                                     : status);
  }

  const Callbacks callbacks_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  const std::unique_ptr<proto::Coordinator::Stub> stub_;
  const std::unique_ptr<Stream> stream_;
  std::thread reader_;
};

// Dials over TLS. The channel would reconnect after its end, but it serves one session only; other
// streams on it end when Session::Callbacks::on_line reports the end of the connection. A plain
// connection first shows whether anybody listens: it costs a hundredth of a channel with keys, of
// which daemons without a coordinator would make many.
absl::StatusOr<std::shared_ptr<grpc::Channel>> DialSecure(const std::string& coordinator,
                                                          const Credentials& credentials,
                                                          const DialLimits& limits) {
  if (const absl::StatusOr<UniqueFd> probe = DialTcp(coordinator, limits.connect, kSilenceMax);
      !probe.ok()) {
    return probe.status();
  }
  const absl::StatusOr<Line> line =
      LineTo(coordinator, credentials, {.silence = kSilenceMax, .connect = limits.handshake});
  if (!line.ok()) return line.status();
  const absl::Status up = line->Await(absl::Now() + limits.handshake);
  if (up.ok()) return line->channel;
  if (absl::IsUnavailable(up)) return absl::UnavailableError(WhyNoHandshake(/*insecure=*/false));
  return Refused(coordinator, std::string(up.message()));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> DialChannel(const std::string& coordinator,
                                                           const Credentials& credentials,
                                                           const DialLimits& limits) {
  const bool is_plain = UnixPath(coordinator) || credentials.kind() == Credentials::Kind::kInsecure;
  if (!is_plain) return DialSecure(coordinator, credentials, limits);
  absl::StatusOr<UniqueFd> fd = control::Dial(coordinator, limits.connect, kSilenceMax);
  if (fd.ok()) return ChannelOn(*std::move(fd));
  // Another user listens there.
  const bool is_strange = absl::IsPermissionDenied(fd.status());
  if (!is_strange) return fd.status();
  return absl::FailedPreconditionError(absl::StrCat("coordinator at ", fd.status().message()));
}

std::unique_ptr<SessionStream> SessionStream::Dial(const std::string& coordinator,
                                                   const Credentials& credentials,
                                                   const DialLimits& limits, Callbacks callbacks) {
  const auto channel = DialChannel(coordinator, credentials, limits);
  if (channel.ok()) return std::make_unique<GrpcLine>(*channel, std::move(callbacks));
  callbacks.on_closed(channel.status());
  return std::make_unique<NoLine>();
}

constexpr absl::Duration kRegisterTimeout = absl::Seconds(10);
constexpr absl::Duration kStopTimeout = absl::Seconds(2);
// With several addresses: a host that is down does not answer, and others do.
constexpr absl::Duration kConnectOfSeveral = absl::Seconds(1);
// The mean pause if all that answer are standbys.
constexpr absl::Duration kPauseAtStandby = absl::Milliseconds(250);

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
      // Interrupts a blocked write if the session's thread does not return in time.
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
      // Sessions that broke together must not retry together.
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

  // The reason as text. If the peer speaks TLS and this side does not, the connection just ends.
  std::string WhyNot() {
    const bool is_plain = options_.credentials.kind() == Credentials::Kind::kInsecure &&
                          !UnixPath(options_.coordinator);
    const bool is_told = IsStandbyText(round_.Reasons());
    if (!is_plain || is_told || !round_.is_one() || RegisteredOnce()) return round_.Reasons();
    return WhyUnreachable(options_.coordinator, /*insecure=*/true);
  }

  // Dials, registers and serves one connection until it breaks or the session stops.
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
      // Messages from before the break still count.
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

  // Returns the next message, unless the connection closes, the session stops, there is something
  // to send, or `deadline` comes first.
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

  // Returns why the connection ended; breaks it if it does not end by itself.
  absl::Status WaitClosed() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &GrpcSession::IsClosed), kStopTimeout);
    if (!closed_.has_value()) return absl::UnavailableError("no answer");
    if (absl::IsResourceExhausted(*closed_)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("coordinator at ", round_.current(), ": ", closed_->message()));
    }
    // The coordinator's refusal. An invalid date may be temporary, as a clock may be wrong; a
    // revocation is final.
    if (absl::IsPermissionDenied(*closed_) ||
        (absl::IsUnauthenticated(*closed_) && !registered_once_)) {
      return Refused(round_.current(), std::string(closed_->message()));
    }
    // There are no keys for it, or something else answers there, which may be temporary.
    if (absl::IsFailedPrecondition(*closed_) && !registered_once_) return *closed_;
    // FailedPrecondition means "refused" to our caller; a lost connection does not.
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
    // A full inbox leaves the rest to the connection's flow control; after the connection's end
    // nobody empties it.
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

  Options options_;  // after construction: the session thread's
  const Callbacks callbacks_;
  std::thread thread_;

  // For the session's thread.
  bool registered_ = false;  // on the current connection
  absl::Duration heartbeat_every_;
  Renewal renewal_;
  AddressRound round_;

  absl::Mutex mutex_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool overflown_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaves_ ABSL_GUARDED_BY(mutex_) = false;                 // this daemon is about to stop
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);  // of the current connection
  absl::Time closed_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> stop_at_ ABSL_GUARDED_BY(mutex_);
  SessionStream* line_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to cancel; valid while it is set
  bool registered_once_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Session> Session::Create(Options options, Callbacks callbacks) {
  return std::make_unique<GrpcSession>(std::move(options), std::move(callbacks));
}

}  // namespace strata::control
