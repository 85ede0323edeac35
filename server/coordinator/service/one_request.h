#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_

#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/os/message_bounds.h"

namespace strata::server {

// A unary call that hands control to its method before the request is read. For ordinary methods
// gRPC first reads and parses the request, up to the largest message, from anybody who has
// connected. Here the service checks the caller first, then takes the request's bytes and parses
// only as many as its type may have. The wire format is the same.
template <typename Request, typename Reply,
          typename Streamer = grpc::ServerUnaryStreamer<grpc::ByteBuffer, Reply>>
class OneRequest {
 public:
  using StreamerType = Streamer;

  // `streamer` outlives it.
  explicit OneRequest(Streamer* streamer) : streamer_(streamer) {}

  // Errors: InvalidArgument: there is none, it is damaged, or it exceeds a limit, which the text
  // names. A request larger than gRPC's largest message ends the call by itself.
  absl::Status Read(Request* request) {
    grpc::ByteBuffer bytes;
    grpc::Slice whole;
    if (!streamer_->Read(&bytes) || !bytes.DumpToSingleSlice(&whole).ok()) {
      return absl::InvalidArgumentError("the call has no request that counts");
    }
    return ParseBounded(
        absl::string_view(reinterpret_cast<const char*>(whole.begin()), whole.size()), request);
  }
  bool Write(const Reply& reply, grpc::WriteOptions options = {}) {
    return streamer_->Write(reply, options);
  }

 private:
  Streamer* const streamer_;
};

// The same for a call whose replies are a stream.
template <typename Request, typename Event>
using OneRequestStream =
    OneRequest<Request, Event, grpc::ServerSplitStreamer<grpc::ByteBuffer, Event>>;

// Returns a handler for MarkMethodStreamed, by which `method` of `service` answers the calls. The
// gRPC service owns it.
template <typename Service, typename Request, typename Reply, typename Streamer>
grpc::internal::MethodHandler* HandlerOf(
    Service* service,
    grpc::Status (Service::*method)(grpc::ServerContext*, OneRequest<Request, Reply, Streamer>*)) {
  constexpr bool kIsUnary =
      std::is_same_v<Streamer, grpc::ServerUnaryStreamer<grpc::ByteBuffer, Reply>>;
  using Handler = grpc::internal::TemplatedBidiStreamingHandler<Streamer, kIsUnary>;
  return std::make_unique<Handler>(
             [service, method](grpc::ServerContext* context, Streamer* streamer) {
               OneRequest<Request, Reply, Streamer> call(streamer);
               return (service->*method)(context, &call);
             })
      .release();
}

// Reads the request. Errors: those of OneRequest::Read.
template <typename Request, typename Reply, typename Streamer>
absl::Status ReadRequest(OneRequest<Request, Reply, Streamer>* call, Request* request) {
  return call->Read(request);
}
// Reads the first message of a stream. Errors: as above.
template <typename Sent, typename Received>
absl::Status ReadRequest(grpc::ServerReaderWriter<Sent, Received>* stream, Received* request) {
  if (!stream->Read(request)) {
    return absl::InvalidArgumentError("the call has no request that counts");
  }
  return CheckBounds(*request);
}

// Ends the call with `status`, after the reply if the status is ok.
template <typename Request, typename Reply>
grpc::Status End(OneRequest<Request, Reply>* call, const grpc::Status& status, const Reply& reply) {
  // Nobody waits for a reply that cannot be written.
  if (status.ok()) call->Write(reply, grpc::WriteOptions().set_last_message());
  return status;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
