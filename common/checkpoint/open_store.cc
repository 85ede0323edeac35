#include "common/checkpoint/open_store.h"

#include "common/checkpoint/file_store.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address) {
  return FileStore::Open(address);
}

}  // namespace strata
