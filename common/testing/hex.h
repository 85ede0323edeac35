#ifndef STRATA_COMMON_TESTING_HEX_H_
#define STRATA_COMMON_TESTING_HEX_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace strata::seal {

inline absl::Span<const std::byte> AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline absl::string_view AsText(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string ToHex(absl::Span<const std::byte> bytes) {
  return absl::BytesToHexString(AsText(bytes));
}

inline std::vector<std::byte> FromHex(absl::string_view hex) {
  const std::string text = absl::HexStringToBytes(hex);
  const absl::Span<const std::byte> bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

// Parses into one of the arrays of secret.h and aead.h; missing bytes are zero.
template <typename Array>
Array ArrayFromHex(absl::string_view hex) {
  const std::vector<std::byte> bytes = FromHex(hex);
  Array array = {};
  std::copy_n(bytes.begin(), std::min(bytes.size(), array.size()), array.begin());
  return array;
}

}  // namespace strata::seal

#endif  // STRATA_COMMON_TESTING_HEX_H_
