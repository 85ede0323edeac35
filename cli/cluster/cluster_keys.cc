#include "cli/cluster/cluster_keys.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/options/coordinator_address.h"
#include "common/ipc/unix_socket.h"
#include "common/keys/authority.h"
#include "common/keys/issue_key_file.h"

namespace strata::cli {
namespace {

// Longer than a command runs: nothing renews them.
constexpr absl::Duration kLife = absl::Hours(24 * 366);
// Of the hosts' clocks.
constexpr absl::Duration kClockDifference = absl::Hours(1);

keys::Role RoleOf(DaemonRole role) {
  if (role == DaemonRole::kCoordinator) return keys::Role::kCoordinator;
  return role == DaemonRole::kServer ? keys::Role::kServer : keys::Role::kWorker;
}

// What follows --name.
std::string NameOf(const PlannedDaemon& daemon) {
  const std::vector<std::string>& args = daemon.spec.args;
  const auto option = std::find(args.begin(), args.end(), "--name");
  return option == args.end() || option + 1 == args.end() ? "coordinator" : option[1];
}

// Removes what commands have left that were killed: "PID-NUMBER.pem" of processes that are gone.
void ClearLeftKeys(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (!absl::EndsWith(name, ".pem") || !absl::SimpleAtoi(name.substr(0, name.find('-')), &pid)) {
      continue;
    }
    if (kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove(entry.path(), error);
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
  if (written.ok()) path_ = path;
  return written;
}

}  // namespace strata::cli
