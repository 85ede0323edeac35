#include "common/checkpoint/open_store.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/checkpoint/file_store.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address) {
  namespace fs = std::filesystem;
  if (address.empty()) return absl::InvalidArgumentError("a store's address is empty");
  std::error_code error;
  const fs::file_status facts = fs::status(address, error);
  if (facts.type() == fs::file_type::not_found) return FileError(ENOENT, address);
  if (error) return FileError(error.value(), address);
  if (!fs::is_directory(facts)) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": not a folder"));
  }
  const fs::path path = fs::absolute(address, error);
  if (error) return FileError(error.value(), address);
  absl::StatusOr<std::unique_ptr<FileStore>> store = FileStore::Open(path.string());
  if (!store.ok()) return store.status();
  return std::unique_ptr<Store>(*std::move(store));
}

}  // namespace strata
