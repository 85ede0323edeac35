#ifndef STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
#define STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/store.h"

namespace strata {

// Opens the store that a job's checkpoint.dir names: a folder, by its absolute path, which is made
// where it is missing. Errors: as FileStore::Open's.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
