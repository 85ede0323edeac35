#ifndef STRATA_WORKER_CLIENT_CONNECT_LOAD_PLUGIN_H_
#define STRATA_WORKER_CLIENT_CONNECT_LOAD_PLUGIN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/client/connect/collective.h"

namespace strata::mpi {

// Loads libstrata_mpi.so and starts MPI in this process. Once; the library
// stays loaded. Errors: NotFound (no such file, or MPI's own libraries are
// missing), FailedPrecondition (of another build, MPI does not start, or others
// may replace the file, see CheckTrusted), each naming `path`.
absl::StatusOr<std::unique_ptr<Collective>> LoadPlugin(const std::string& path);

}  // namespace strata::mpi

#endif  // STRATA_WORKER_CLIENT_CONNECT_LOAD_PLUGIN_H_
