#include "common/keys/testing/test_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/keys/issue_key_file.h"
#include "common/require.h"

namespace strata::keys {

Authority MakeAuthority(const std::string& cluster, absl::Time now) {
  return Authority::Make(cluster, now, absl::Hours(24 * 30)).value();
}

KeyFile MakeKeyFile(const Authority& authority, const Identity& identity, absl::Time not_before,
                    absl::Time not_after) {
  return IssueKeyFile(authority, identity, not_before, not_after).value();
}

KeyFolder::KeyFolder(std::string folder)
    : folder_(std::move(folder)), authority_(MakeAuthority("test", absl::Now())) {}

std::string KeyFolder::PathOf(Role role, const std::string& name) {
  const std::string path = absl::StrCat(folder_, "/", RoleName(role), "-", name, ".pem");
  if (!made_.insert(path).second) return path;
  const absl::Time now = absl::Now();
  const absl::Status written = WriteKeyFile(
      path,
      MakeKeyFile(authority_, {"test", role, name}, now - absl::Minutes(5), now + absl::Hours(1)));
  STRATA_REQUIRE(written.ok());
  return path;
}

}  // namespace strata::keys
