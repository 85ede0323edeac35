#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_

#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"

namespace strata::server {

// Of a call that has one request, as its method sees it before gRPC has read that: gRPC reads it
// first for other methods, up to the largest message, from whoever has connected. On the wire it is
// the same. So the service asks who calls, and then for the request.
template <typename Request, typename Reply>
using OneRequest = grpc::ServerUnaryStreamer<Request, Reply>;

// Reads the request. Errors: InvalidArgument: there is none, or it is damaged. One that is too
// large ends the call by itself.
template <typename Stream, typename Request>
absl::Status ReadRequest(Stream* stream, Request* request) {
  if (stream->Read(request)) return absl::OkStatus();
  return absl::InvalidArgumentError("the call has no request that counts");
}

// Ends the call with `status`, after the reply where it is a good one.
template <typename Request, typename Reply>
grpc::Status End(OneRequest<Request, Reply>* stream, const grpc::Status& status,
                 const Reply& reply) {
  // What cannot be written has nobody who waits for it.
  if (status.ok()) stream->Write(reply, grpc::WriteOptions().set_last_message());
  return status;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ONE_REQUEST_H_
