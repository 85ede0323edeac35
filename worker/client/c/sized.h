#ifndef STRATA_WORKER_CLIENT_C_SIZED_H_
#define STRATA_WORKER_CLIENT_C_SIZED_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace strata::client {

// Returns a struct of the C ABI as this library knows it: the fields that the caller's has, by its
// `size`, which is the first one; zeros for those that were added since.
template <typename Struct>
Struct Sized(const Struct& from) {
  Struct full = {};
  std::memcpy(static_cast<void*>(&full), &from, std::min(from.size, sizeof(Struct)));
  return full;
}

// Writes such a struct to the caller's, as far as its `size` says that it goes.
template <typename Struct>
void WriteSized(Struct from, Struct* to) {
  from.size = to->size;
  std::memcpy(static_cast<void*>(to), &from, std::min(to->size, sizeof(Struct)));
}

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_SIZED_H_
