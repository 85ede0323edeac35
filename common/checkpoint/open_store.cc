#include "common/checkpoint/open_store.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/file_store.h"
#include "common/checkpoint/s3_store.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address,
                                                 const StoreOptions& options) {
  if (absl::StartsWith(address, "/")) return FileStore::Open(address);
  if (absl::StartsWith(address, "s3://")) {
    return S3Store::Open(address, options.environment, options.s3, options.stop);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is neither an absolute path nor s3://BUCKET/PREFIX"));
}

}  // namespace strata
