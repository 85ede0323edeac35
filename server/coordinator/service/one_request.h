#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_

#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <type_traits>

namespace strata::server {

// Of a call that has one request, as its method sees it before gRPC has read that: gRPC reads it
// first for other methods, up to the largest message, from whoever has connected. On the wire it is
// the same. So the service asks who calls, and then for the request.
template <typename Request, typename Reply>
using OneRequest = grpc::ServerUnaryStreamer<Request, Reply>;

// Reads the request. Errors: InvalidArgument: there is none, or it is damaged. One that is too
// large ends the call by itself.
template <typename Stream, typename Request>
grpc::Status ReadRequest(Stream* stream, Request* request) {
  if (stream->Read(request)) return grpc::Status::OK;
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the call has no request that counts");
}

// Reads the request and sends the reply that `ask` makes of it.
template <typename Request, typename Reply>
grpc::Status Answer(
    OneRequest<Request, Reply>* stream,
    const std::type_identity_t<std::function<grpc::Status(const Request&, Reply*)>>& ask) {
  Request request;
  const grpc::Status read = ReadRequest(stream, &request);
  if (!read.ok()) return read;
  Reply reply;
  grpc::Status status = ask(request, &reply);
  // What cannot be written has nobody who waits for it.
  if (status.ok()) stream->Write(reply, grpc::WriteOptions().set_last_message());
  return status;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
