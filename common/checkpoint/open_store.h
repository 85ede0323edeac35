#ifndef STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
#define STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/store.h"
#include "common/os/environment.h"
#include "common/s3/requests.h"

namespace strata {

struct StoreOptions {
  Environment environment;  // where S3 settings come from: OwnEnvironment()
  s3::Limits s3;            // how long to wait for S3
  std::stop_token stop;     // ends every call that waits for S3, with Cancelled
};

// Opens the store that a job's checkpoint.dir names: "/PATH", a folder, which is created if
// missing, or "s3://BUCKET[/PREFIX]". Errors: InvalidArgument: neither; those of FileStore and of
// S3.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address,
                                                 const StoreOptions& options);

// Opens an existing store to read; a folder also by its path from the working directory. Creates
// nothing. Errors name the address: NotFound, InvalidArgument (a file, or an empty address); those
// of S3Store.
absl::StatusOr<std::unique_ptr<Store>> OpenStoreThatIsThere(const std::string& address,
                                                            const StoreOptions& options);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
