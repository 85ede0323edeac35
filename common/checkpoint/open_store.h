#ifndef STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
#define STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/store.h"

namespace strata {

// Opens the store at an address: a folder that is there, by its absolute path or by one from the
// working directory. Makes nothing. Errors name the address: NotFound, InvalidArgument (a file, or
// no address at all).
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& address);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_OPEN_STORE_H_
