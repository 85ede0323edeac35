#ifndef STRATA_COMMON_KEYS_IDENTITY_H_
#define STRATA_COMMON_KEYS_IDENTITY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::keys {

// The kinds of members, which determine their rights.
enum class Role { kCoordinator, kServer, kWorker, kUser };

// An identity in a certificate.
struct Identity {
  std::string cluster;  // as of CheckCluster
  Role role = Role::kUser;
  std::string name;  // as of CheckName

  bool operator==(const Identity&) const = default;
};

// "coordinator", "server", "worker" or "user".
std::string RoleName(Role role);
std::optional<Role> ParseRole(absl::string_view text);

// The role and the name, for messages: "worker w1".
std::string IdentityText(const Identity& identity);

// "spiffe://CLUSTER/worker/NAME", the form that a certificate carries.
std::string ToUri(const Identity& identity);
// Parses only what ToUri returns. Errors: InvalidArgument.
absl::StatusOr<Identity> ParseUri(absl::string_view uri);

// "spiffe://CLUSTER", the form that an authority's own certificate carries.
std::string ToClusterUri(absl::string_view cluster);
// Parses only what ToClusterUri returns. Errors: InvalidArgument.
absl::StatusOr<std::string> ParseClusterUri(absl::string_view uri);

// A name has 1 to 255 characters of A-Z, a-z, 0-9, '.', '_' and '-', the first neither '.' nor '-'.
// Errors: InvalidArgument.
absl::Status CheckName(absl::string_view name);
// A cluster's name has 1 to 64 characters of a-z, 0-9, '.' and '-', the first neither '.' nor '-'.
// Errors: InvalidArgument.
absl::Status CheckCluster(absl::string_view cluster);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_IDENTITY_H_
