#ifndef STRATA_SERVER_COORDINATOR_ACCESS_POLICY_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/keys.pb.h"
#include "proto/policy.pb.h"

namespace strata::server {

// Returns the canonical form in which paths are compared: no empty parts, no ".", no trailing '/'.
// Links are not resolved. Errors: InvalidArgument: the path is neither absolute nor
// s3://BUCKET/..., or has a ".." part or a zero byte.
absl::StatusOr<std::string> NormalPath(absl::string_view path);

// Returns whether `path` equals `prefix` or lies below it. REQUIRES: both come from NormalPath.
bool LiesBelow(absl::string_view path, absl::string_view prefix);

using UserRole = proto::UserPolicy::Role;

// The rights of one user.
struct UserRights {
  UserRole role = proto::UserPolicy::NONE;
  std::string tenant = {};                      // the namespace; empty: the default one
  uint32_t slots = 0;                           // ranks at once; 0: no limit
  std::vector<std::string> path_prefixes = {};  // normalized; empty: no limit

  bool operator==(const UserRights&) const = default;
};

// "view", "submit", "run-programs", "operate", "admin", "none".
std::string UserRoleName(UserRole role);
std::optional<UserRole> ParseUserRole(const std::string& name);

// The rights of the cluster's users. A value; one that was not parsed lists nobody.
class Policy {
 public:
  static constexpr size_t kBytesMax = 16 << 20;

  Policy() = default;
  // Reads a policy file. Errors: InvalidArgument in one line: "SOURCE:LINE:COLUMN: FIELD: why".
  static absl::StatusOr<Policy> Parse(const std::string& text, const std::string& source);

  // Returns the user's rights: the policy's own entry, else `remembered`, the grant of the user's
  // token (null: none), else default_user.
  UserRights RightsOf(const std::string& user, const proto::UserGrant* remembered) const;
  bool allow_plain() const { return allow_plain_; }
  bool trusted_network() const { return trusted_network_; }
  size_t users() const { return users_.size(); }
  // Returns whether the policy names anybody; otherwise everybody may run programs.
  bool lists_anybody() const { return !users_.empty() || default_user_.has_value(); }

 private:
  std::map<std::string, UserRights> users_;
  std::optional<UserRights> default_user_;
  bool allow_plain_ = false;
  bool trusted_network_ = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_POLICY_H_
