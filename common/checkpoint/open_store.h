#ifndef STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
#define STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_

#include <memory>
#include <stop_token>
#include <string>

#include "common/checkpoint/store.h"
#include "common/process/environment.h"
#include "common/s3/requests.h"

namespace strata {

struct StoreOptions {
  Environment environment;  // what S3 is found by: OwnEnvironment()
  s3::Limits s3;            // how long S3 is waited for
  std::stop_token stop;     // ends every call that waits for S3, with Cancelled
};

// Opens the store that a user names: "/PATH", a folder (FileStore), or "s3://BUCKET[/PREFIX]"
// (S3Store). Errors: InvalidArgument: neither; as of those.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address,
                                                 const StoreOptions& options);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
