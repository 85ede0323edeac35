#include "server/coordinator/access/cluster_roots.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace strata::server {
namespace {

constexpr char kNone[] = "none";
constexpr size_t kDigits = 64;  // SHA-256

bool IsFingerprint(const std::string& text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

bool Has(const std::vector<std::string>& roots, const std::string& root) {
  return std::find(roots.begin(), roots.end(), root) != roots.end();
}

absl::Status Another(const std::string& theirs, const std::string& own) {
  return absl::FailedPreconditionError(absl::StrCat(
      "belongs to a cluster ", theirs, ", and this coordinator ", own,
      ": take STATE/keys from a coordinator of that cluster, or name another cluster"));
}

}  // namespace

std::string RootsValue(const std::vector<std::string>& roots) {
  return roots.empty() ? kNone : absl::StrJoin(roots, ",");
}

absl::Status CheckRoots(const std::string& value, const std::vector<std::string>& roots) {
  std::vector<std::string> known;
  if (value != kNone) known = absl::StrSplit(value, ',');
  if (!std::all_of(known.begin(), known.end(), IsFingerprint)) {
    return absl::DataLossError("is damaged: no fingerprints of an authority");
  }
  if (known.empty() && roots.empty()) return absl::OkStatus();
  if (known.empty()) return Another("without keys", "has some");
  const std::string theirs = absl::StrCat("with the authority ", known.front());
  if (roots.empty()) return Another(theirs, "has no keys");
  if (Has(roots, known.front())) return absl::OkStatus();
  if (Has(known, roots.front())) {
    return absl::FailedPreconditionError(
        absl::StrCat("has the authority ", known.front(), " since it was rotated, and this ",
                     "coordinator the one before: copy STATE/keys from where it was rotated"));
  }
  return Another(theirs, absl::StrCat("has ", roots.front()));
}

}  // namespace strata::server
