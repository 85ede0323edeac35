#include "cli/cluster/run_keys.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/cluster/cluster_keys.h"
#include "common/file/file_error.h"
#include "common/keys/authority.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

struct Member {
  keys::Role role;
  std::string name;
};

absl::StatusOr<std::vector<Member>> ParseMembers(const std::vector<std::string>& texts) {
  std::vector<Member> members;
  for (const std::string& text : texts) {
    const size_t slash = text.find('/');
    const std::optional<keys::Role> role = keys::ParseRole(text.substr(0, slash));
    if (slash == std::string::npos || !role.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(text, ": expected ROLE/NAME, as in worker/w1"));
    }
    members.push_back({*role, text.substr(slash + 1)});
  }
  for (const keys::Role needed : {keys::Role::kCoordinator, keys::Role::kUser}) {
    const auto is_it = [&](const Member& member) { return member.role == needed; };
    if (std::any_of(members.begin(), members.end(), is_it)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "no ", keys::RoleName(needed), " among the members: all that a run has are named at once"));
  }
  return members;
}

absl::Status CheckHasNoKeys(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".pem") continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder,
                     ": has keys already, of another authority; name a new folder, and all "
                     "members in one command"));
  }
  if (!error || error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  return FileError(error.value(), folder);
}

}  // namespace

absl::Status WriteKeysForRun(const std::vector<std::string>& members, const std::string& folder) {
  const auto parsed = ParseMembers(members);
  if (!parsed.ok()) return parsed.status();
  if (absl::Status none = CheckHasNoKeys(folder); !none.ok()) return none;
  const auto authority = RunAuthority();
  if (!authority.ok()) return authority.status();
  std::vector<std::pair<std::string, keys::KeyFile>> files;
  for (const Member& member : *parsed) {
    auto keys = KeysForRun(*authority, member.role, member.name);
    if (!keys.ok()) return keys.status();
    files.emplace_back(
        absl::StrCat(folder, "/", keys::RoleName(member.role), "-", member.name, ".pem"),
        *std::move(keys));
  }
  for (const auto& [path, keys] : files) {
    if (absl::Status written = keys::WriteKeyFile(path, keys); !written.ok()) return written;
  }
  return absl::OkStatus();
}

}  // namespace strata::cli
