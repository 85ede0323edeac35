#include "cli/cluster/cluster_keys.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/options/coordinator_address.h"
#include "common/keys/authority.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"
#include "common/os/atomic_file.h"
#include "common/os/unix_socket.h"
#include "common/unique_fd.h"

namespace strata::cli {

namespace {

// Longer than a command runs: nothing renews them.
constexpr absl::Duration kLife = absl::Hours(24 * 366);
// The largest difference between the hosts' clocks.
constexpr absl::Duration kClockDifference = absl::Hours(1);

keys::Role RoleOf(DaemonRole role) {
  if (role == DaemonRole::kCoordinator) return keys::Role::kCoordinator;
  return role == DaemonRole::kServer ? keys::Role::kServer : keys::Role::kWorker;
}

// Returns the value of --name.
std::string NameOf(const PlannedDaemon& daemon) {
  const std::vector<std::string>& args = daemon.spec.args;
  const auto option = std::find(args.begin(), args.end(), "--name");
  return option == args.end() || option + 1 == args.end() ? "coordinator" : option[1];
}

// Time in which a command locks the file that it has written.
constexpr absl::Duration kLocksWithin = absl::Minutes(1);

// Returns the file, locked; not valid: it is not there, or a command that lives has locked it. A
// process number would not do: containers that share /tmp have numbers of their own.
UniqueFd LockKeys(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(file) : UniqueFd();
}

// Removes the files "NUMBER-NUMBER.pem" that commands have left which were killed.
void ClearLeftKeys(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path(), name = entry.path().filename();
    int number = 0;
    const bool is_lent =
        absl::EndsWith(name, ".pem") && absl::SimpleAtoi(name.substr(0, name.find('-')), &number);
    if (!is_lent) continue;
    const UniqueFd locked = LockKeys(path);
    struct stat facts = {};
    if (!locked.valid() || fstat(locked.get(), &facts) != 0) continue;
    if (absl::Now() - absl::TimeFromTimespec(facts.st_mtim) < kLocksWithin) continue;
    std::filesystem::remove(path, error);
  }
}

}  // namespace

absl::StatusOr<keys::Authority> RunAuthority() {
  std::random_device random;
  return keys::Authority::Make(absl::StrFormat("run-%08x", random()), absl::Now(),
                               kLife + kClockDifference);
}

absl::StatusOr<keys::KeyFile> KeysForRun(const keys::Authority& authority, keys::Role role,
                                         const std::string& name) {
  const absl::Time now = absl::Now();
  return keys::IssueKeyFile(authority, {authority.cluster(), role, name}, now - kClockDifference,
                            now + kLife);
}

absl::StatusOr<keys::KeyFile> GiveKeys(std::vector<PlannedDaemon>* plan) {
  const auto authority = RunAuthority();
  if (!authority.ok()) return authority.status();
  for (PlannedDaemon& daemon : *plan) {
    const auto keys = KeysForRun(*authority, RoleOf(daemon.role), NameOf(daemon));
    if (!keys.ok()) return keys.status();
    daemon.spec.keys = keys::KeyFilePem(*keys);
  }
  return KeysForRun(*authority, keys::Role::kUser, "launcher");
}

LentKeys::~LentKeys() {
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status LentKeys::Write(const keys::KeyFile& keys) {
  const absl::Status made = MakeCoordinatorFolder();
  if (!made.ok()) return made;
  const std::string path = absl::StrCat(*UnixPath(OwnCoordinator()), ".pem");
  ClearLeftKeys(std::filesystem::path(path).parent_path());
  const absl::Status written = keys::WriteKeyFile(path, keys);
  if (!written.ok()) return written;
  path_ = path;
  locked_ = LockKeys(path);
  return absl::OkStatus();
}

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
