#ifndef STRATA_COMMON_KEYS_PEM_H_
#define STRATA_COMMON_KEYS_PEM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::keys {

inline constexpr size_t kPemBytesMax = 64 * 1024;  // per text

// One block: "-----BEGIN LABEL-----" and what follows.
struct PemBlock {
  std::string label;
  bool encrypted = false;
  std::string der;  // still encrypted if `encrypted`
};

// Returns the blocks of a text; text between them is skipped. Decrypts nothing, so that nothing
// asks for a password at the terminal. Errors: InvalidArgument: a damaged block, or a text above
// kPemBytesMax.
absl::StatusOr<std::vector<PemBlock>> PemBlocks(absl::string_view pem);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_PEM_H_
