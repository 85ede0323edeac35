#include "common/control/session_stream.h"

#include <grpcpp/client_context.h>

#include <thread>

#include "common/control/channel.h"
#include "common/control/dial.h"
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
};

class GrpcLine final : public SessionStream {
 public:
  GrpcLine(UniqueFd fd, Callbacks callbacks)
      : callbacks_(std::move(callbacks)),
        stub_(proto::Coordinator::NewStub(ChannelOn(std::move(fd)))),
        stream_(Open()),
        reader_([this] { Read(); }) {}

  ~GrpcLine() override {
    context_.TryCancel();
    reader_.join();
  }

  bool Write(const proto::DaemonMessage& message) override { return stream_->Write(message); }
  void Finish() override { stream_->WritesDone(); }
  void Cancel() override { context_.TryCancel(); }

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
  grpc::ClientContext context_;
  const std::unique_ptr<proto::Coordinator::Stub> stub_;
  const std::unique_ptr<Stream> stream_;
  std::thread reader_;
};

}  // namespace

std::unique_ptr<SessionStream> SessionStream::Dial(const std::string& coordinator,
                                                   absl::Duration timeout, Callbacks callbacks) {
  absl::StatusOr<UniqueFd> fd = control::Dial(coordinator, timeout, kSilenceMax);
  if (fd.ok()) return std::make_unique<GrpcLine>(*std::move(fd), std::move(callbacks));
  callbacks.on_closed(fd.status());
  return std::make_unique<NoLine>();
}

}  // namespace strata::control
