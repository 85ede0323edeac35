#include "common/keys/identity.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace strata::keys {
namespace {

constexpr absl::string_view kScheme = "spiffe://";
constexpr size_t kNameCharactersMax = 255;  // the longest host name fits
constexpr size_t kClusterCharactersMax = 64;
constexpr std::array kRoles = {Role::kCoordinator, Role::kServer, Role::kWorker, Role::kUser};

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; }

bool IsClusterCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '.' || c == '-';
}

bool Fits(absl::string_view text, size_t characters_max, bool (*is_allowed)(char)) {
  return !text.empty() && text.size() <= characters_max && text[0] != '.' && text[0] != '-' &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

// Makes an untrusted text fit for one line of a message.
std::string Shown(absl::string_view text) {
  constexpr size_t kShownMax = 200;
  const bool is_long = text.size() > kShownMax;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShownMax)), is_long ? "..." : "",
                      "\"");
}

absl::Status NoIdentity(absl::string_view uri) {
  return absl::InvalidArgumentError(
      absl::StrCat(Shown(uri), " is no identity: one is spiffe://CLUSTER/ROLE/NAME, with a role ",
                   "of coordinator, server, worker or user"));
}

}  // namespace

std::string RoleName(Role role) {
  switch (role) {
    case Role::kCoordinator:
      return "coordinator";
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
    case Role::kUser:
      return "user";
  }
  return "unknown";
}

std::optional<Role> ParseRole(absl::string_view text) {
  for (const Role role : kRoles) {
    if (text == RoleName(role)) return role;
  }
  return std::nullopt;
}

std::string IdentityText(const Identity& identity) {
  return absl::StrCat(RoleName(identity.role), " ", identity.name);
}

std::string ToUri(const Identity& identity) {
  return absl::StrCat(ToClusterUri(identity.cluster), "/", RoleName(identity.role), "/",
                      identity.name);
}

absl::StatusOr<Identity> ParseUri(absl::string_view uri) {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, kScheme)) return NoIdentity(uri);
  const size_t first = rest.find('/');
  if (first == absl::string_view::npos) return NoIdentity(uri);
  const size_t second = rest.find('/', first + 1);
  if (second == absl::string_view::npos) return NoIdentity(uri);
  const absl::string_view cluster = rest.substr(0, first);
  const absl::string_view name = rest.substr(second + 1);
  const std::optional<Role> role = ParseRole(rest.substr(first + 1, second - first - 1));
  if (!role.has_value()) return NoIdentity(uri);
  if (absl::Status status = CheckCluster(cluster); !status.ok()) return status;
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  return Identity{std::string(cluster), *role, std::string(name)};
}

std::string ToClusterUri(absl::string_view cluster) { return absl::StrCat(kScheme, cluster); }

absl::StatusOr<std::string> ParseClusterUri(absl::string_view uri) {
  absl::string_view cluster = uri;
  if (!absl::ConsumePrefix(&cluster, kScheme)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Shown(uri), " names no cluster: spiffe://CLUSTER does"));
  }
  if (absl::Status status = CheckCluster(cluster); !status.ok()) return status;
  return std::string(cluster);
}

absl::Status CheckName(absl::string_view name) {
  if (Fits(name, kNameCharactersMax, &IsNameCharacter)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the name ", Shown(name), " does not fit: 1 to ", kNameCharactersMax,
                   " letters, digits, '.', '_' and '-', the first neither '.' nor '-'"));
}

absl::Status CheckCluster(absl::string_view cluster) {
  if (Fits(cluster, kClusterCharactersMax, &IsClusterCharacter)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the cluster's name ", Shown(cluster), " does not fit: 1 to ", kClusterCharactersMax,
      " of a-z, 0-9, '.' and '-', the first neither '.' nor '-'"));
}

}  // namespace strata::keys
