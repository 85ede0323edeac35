#ifndef STRATA_COMMON_COUNTED_H_
#define STRATA_COMMON_COUNTED_H_

#include <cstdint>
#include <string>

namespace strata {

// "1 rank", "2 ranks", "0 ranks"; for nouns that take an s.
inline std::string Counted(uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace strata

#endif  // STRATA_COMMON_COUNTED_H_
