#include "common/checkpoint/store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata {

absl::Status CheckObjectName(const std::string& name) {
  constexpr size_t kNameBytesMax = 512, kPartBytesMax = 200;
  const auto is_fine = [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  const bool all_fine = std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return !part.empty() && part[0] != '.' && !absl::StrContains(part, ".tmp.") &&
           part.size() <= kPartBytesMax && std::all_of(part.begin(), part.end(), is_fine);
  });
  if (all_fine && name.size() <= kNameBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is no name of an object"));
}

absl::Status Store::Read(const std::string& name, const TakePiece& take) {
  const absl::StatusOr<Bytes> content = Get(name);
  if (!content.ok()) return content.status();
  return take(content->size(), {reinterpret_cast<const char*>(content->data()), content->size()});
}

}  // namespace strata
