#ifndef STRATA_WORKER_CLIENT_CONNECT_CONNECT_H_
#define STRATA_WORKER_CLIENT_CONNECT_CONNECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/processes.pb.h"
#include "worker/client/client.h"

namespace strata::client {

// Client::Connect, of a launch that has been read. Errors: as its, but those of the file.
absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const proto::Launch& launch);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_CONNECT_H_
