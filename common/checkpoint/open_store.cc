#include "common/checkpoint/open_store.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/file_store.h"
#include "common/checkpoint/s3_store.h"
#include "common/file/atomic_file.h"

namespace strata {
namespace {

bool IsS3(const std::string& address) { return absl::StartsWith(address, "s3://"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address,
                                                 const StoreOptions& options) {
  if (absl::StartsWith(address, "/")) return FileStore::Open(address);
  if (IsS3(address)) {
    return S3Store::Open(address, options.environment, options.s3, options.stop);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is neither an absolute path nor s3://BUCKET/PREFIX"));
}

absl::StatusOr<std::unique_ptr<Store>> OpenStoreThatIsThere(const std::string& address,
                                                            const StoreOptions& options) {
  namespace fs = std::filesystem;
  if (address.empty()) return absl::InvalidArgumentError("a store's address is empty");
  if (IsS3(address)) return OpenStore(address, options);
  std::error_code error;
  const fs::file_status facts = fs::status(address, error);
  if (facts.type() == fs::file_type::not_found) return FileError(ENOENT, address);
  if (error) return FileError(error.value(), address);
  if (!fs::is_directory(facts)) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": not a folder"));
  }
  const fs::path path = fs::absolute(address, error);
  if (error) return FileError(error.value(), address);
  return OpenStore(path.string(), options);
}

}  // namespace strata
