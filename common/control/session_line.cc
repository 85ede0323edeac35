#include "common/control/session_line.h"

#include <grpcpp/client_context.h>

#include <thread>

#include "common/control/channel.h"
#include "proto/control.grpc.pb.h"

namespace strata::control {
namespace {

class GrpcLine final : public SessionLine {
 public:
  GrpcLine(const std::string& coordinator, Callbacks callbacks)
      : callbacks_(std::move(callbacks)),
        stub_(proto::Coordinator::NewStub(ChannelTo(coordinator))),
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

  // Corked, the call goes out with the first message: so it is Write that waits for the connection,
  // and Cancel can end that.
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

std::unique_ptr<SessionLine> SessionLine::Dial(const std::string& coordinator,
                                               Callbacks callbacks) {
  return std::make_unique<GrpcLine>(coordinator, std::move(callbacks));
}

}  // namespace strata::control
