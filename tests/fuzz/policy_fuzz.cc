// Policies of a cluster: what is refused is refused in one line with its place; what is read gives
// each user rights that can be kept to, and no path leaves the folders that hold it.
//
// Input: a byte that says what follows: 'p' a policy file, 'n' a path, a line's end and a prefix.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/coordinator/access/policy.h"
#include "tests/fuzz/check.h"

namespace strata::server {
namespace {

void CheckRefusal(const absl::Status& status) {
  FUZZ_CHECK(absl::IsInvalidArgument(status));
  FUZZ_CHECK(!status.message().empty());
  for (const char c : status.message()) FUZZ_CHECK(static_cast<unsigned char>(c) >= ' ');
}

void CheckIsNormal(const std::string& path) {
  FUZZ_CHECK(NormalPath(path).value() == path);
  FUZZ_CHECK(path[0] == '/' || absl::StartsWith(path, "s3://"));
  for (const auto part : absl::StrSplit(path, '/')) FUZZ_CHECK(part != ".." && part != ".");
}

void CheckRights(const UserRights& rights) {
  FUZZ_CHECK(proto::UserPolicy::Role_IsValid(rights.role));
  FUZZ_CHECK(ParseUserRole(UserRoleName(rights.role)) == rights.role);
  for (const std::string& prefix : rights.path_prefixes) CheckIsNormal(prefix);
}

void PolicyFile(const std::string& text) {
  const absl::StatusOr<Policy> policy = Policy::Parse(text, "fuzz");
  if (!policy.ok()) {
    FUZZ_CHECK(absl::StartsWith(policy.status().message(), "fuzz:"));
    return CheckRefusal(policy.status());
  }
  for (const char* user : {"ada", "bob", ""}) CheckRights(policy->RightsOf(user, nullptr));
  // Of whom no entry can name, what was remembered counts.
  proto::UserGrant nothing;
  const UserRights rights = policy->RightsOf("", &nothing);
  FUZZ_CHECK(rights.role == proto::UserPolicy::NONE && rights.path_prefixes.empty());
}

void Paths(const std::string& text) {
  const size_t end = text.find('\n');
  const absl::StatusOr<std::string> path = NormalPath(text.substr(0, end));
  if (!path.ok()) return CheckRefusal(path.status());
  CheckIsNormal(*path);
  FUZZ_CHECK(LiesBelow(*path, *path));
  FUZZ_CHECK(LiesBelow(*path == "/" ? "/a" : absl::StrCat(*path, "/a"), *path));
  if (end == std::string::npos) return;
  const absl::StatusOr<std::string> prefix = NormalPath(text.substr(end + 1));
  if (!prefix.ok()) return CheckRefusal(prefix.status());
  if (!LiesBelow(*path, *prefix)) return;
  const bool is_same = *path == *prefix;
  FUZZ_CHECK(is_same || *prefix == "/" || absl::StartsWith(*path, absl::StrCat(*prefix, "/")));
  FUZZ_CHECK(is_same || !LiesBelow(*prefix, *path));
}

void Fuzz(char kind, const std::string& rest) {
  if (kind == 'p') PolicyFile(rest);
  if (kind == 'n') Paths(rest);
}

}  // namespace
}  // namespace strata::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::server::Fuzz(static_cast<char>(data[0]),
                       std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
