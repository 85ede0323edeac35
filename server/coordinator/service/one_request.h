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

// A call that has one request, as its method sees it before anything is read: gRPC reads and parses
// the request first for other methods, up to the largest message, from whoever has connected. On
// the wire it is the same. So the service asks who calls, takes the request's bytes, and parses
// only as many as a request of its type may have.
template <typename Request, typename Reply,
          typename Streamer = grpc::ServerUnaryStreamer<grpc::ByteBuffer, Reply>>
class OneRequest {
 public:
  using StreamerType = Streamer;

  // `streamer` outlives it.
  explicit OneRequest(Streamer* streamer) : streamer_(streamer) {}

  // Errors: InvalidArgument: there is none, it is damaged, or it is beyond a bound, which the text
  // names. One that is larger than gRPC's largest message ends the call by itself.
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

// The same of a call whose replies are a stream.
template <typename Request, typename Event>
using OneRequestStream =
    OneRequest<Request, Event, grpc::ServerSplitStreamer<grpc::ByteBuffer, Event>>;

// Has `method` of `service` answer the calls that a gRPC service hands to the handler, which that
// service owns: MarkMethodStreamed takes it.
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
// Reads the first message of a stream. Errors: the same.
template <typename Sent, typename Received>
absl::Status ReadRequest(grpc::ServerReaderWriter<Sent, Received>* stream, Received* request) {
  if (!stream->Read(request)) {
    return absl::InvalidArgumentError("the call has no request that counts");
  }
  return CheckBounds(*request);
}

// Ends the call with `status`, after the reply where it is a good one.
template <typename Request, typename Reply>
grpc::Status End(OneRequest<Request, Reply>* call, const grpc::Status& status, const Reply& reply) {
  // Nobody waits for a reply that cannot be written.
  if (status.ok()) call->Write(reply, grpc::WriteOptions().set_last_message());
  return status;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
