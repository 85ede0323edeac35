#include "common/control/session_stream.h"

#include <grpcpp/client_context.h>

#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/control/channel.h"
#include "common/control/dial.h"
#include "common/control/probe.h"
#include "common/ipc/unix_socket.h"
#include "proto/control.grpc.pb.h"

namespace strata::control {
namespace {

// Without an acknowledgement of what was sent. With the time that a new connection takes it is well
// within the time after which the coordinator takes a silent daemon for lost.
constexpr absl::Duration kSilenceMax = absl::Seconds(2);

// A line that has ended before it began.
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

  // Corked, the call goes out with the first message: so it is Write that waits, and Cancel can end
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

// Over TLS. The channel would connect again after its end, but one session is all that it is for;
// streams beside it end when Session::Callbacks::on_line says that the line has.
// Whether anybody is there is seen at first, by a connection that says nothing: it costs a
// hundredth of what a channel with keys does, which daemons without a coordinator would make many
// times.
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

}  // namespace

std::unique_ptr<SessionStream> SessionStream::Dial(const std::string& coordinator,
                                                   const Credentials& credentials,
                                                   const DialLimits& limits, Callbacks callbacks) {
  const auto channel = DialChannel(coordinator, credentials, limits);
  if (channel.ok()) return std::make_unique<GrpcLine>(*channel, std::move(callbacks));
  callbacks.on_closed(channel.status());
  return std::make_unique<NoLine>();
}

}  // namespace strata::control
