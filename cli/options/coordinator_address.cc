#include "cli/options/coordinator_address.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/options/terminal.h"
#include "common/control/addresses.h"
#include "common/os/environment.h"
#include "common/os/unix_socket.h"

namespace strata::cli {
namespace {

constexpr char kSocket[] = "/coordinator";

constexpr size_t kNameBytesMax = 24;

// Returns folders in which the path of a socket is short enough.
std::vector<std::string> Folders() {
  std::vector<std::string> folders = SocketFolders(Variable(OwnEnvironment(), "XDG_RUNTIME_DIR"));
  const auto is_too_long = [](const std::string& folder) {
    return folder.size() + kNameBytesMax > kUnixPathBytesMax;
  };
  folders.erase(std::remove_if(folders.begin(), folders.end(), is_too_long), folders.end());
  return folders;
}
// The folder of the systemd unit, which runs as root.
constexpr char kServiceFolder[] = "/run/strata-coordinator/strata";

std::string Folder() { return Folders().front(); }

// More are not told apart by anybody.
constexpr size_t kClustersMax = 32;

// Returns whether OwnCoordinator made this name, and the process that did.
bool IsOwnName(const std::string& name, int* pid) {
  const size_t dash = name.find('-');
  constexpr size_t kRandomDigits = 8;
  return dash != std::string::npos && name.size() == dash + 1 + kRandomDigits &&
         absl::SimpleAtoi(name.substr(0, dash), pid) && *pid > 0;
}

// Returns the command of a process, if it is one of this program; a long one is truncated.
std::string CommandOf(int pid) {
  constexpr size_t kReadMax = 4096, kShownMax = 60;
  std::ifstream in(absl::StrCat("/proc/", pid, "/cmdline"), std::ios::binary);
  std::string text(kReadMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (!text.empty() && text.back() == '\0') text.pop_back();
  std::vector<std::string> words = absl::StrSplit(text, '\0');
  words[0].erase(0, words[0].rfind('/') + 1);
  if (!absl::StrContains(words[0], "strata")) return "";
  words[0] = "strata";
  std::string command = Escaped(absl::StrJoin(words, " "));
  if (command.size() > kShownMax) command = absl::StrCat(EscapedStart(command, kShownMax), "...");
  return command;
}

void AddClustersIn(const std::string& folder, std::vector<ClusterHere>* clusters) {
  std::error_code error;
  std::set<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    int pid = 0;
    const std::string name = entry->path().filename();
    if ("/" + name == kSocket || IsOwnName(name, &pid)) names.insert(name);
  }
  for (const std::string& name : names) {
    if (clusters->size() == kClustersMax) return;
    const std::string path = absl::StrCat(folder, "/", name);
    if (!DialUnix(path).ok()) continue;
    int pid = 0;
    const bool stays = !IsOwnName(name, &pid);
    clusters->push_back({UnixAddress(path), stays ? "" : CommandOf(pid), stays});
  }
}

}  // namespace

std::string DefaultCoordinator() { return UnixAddress(Folder() + kSocket); }

std::string FindCoordinator() {
  std::vector<std::string> folders = Folders();
  folders.emplace_back(kServiceFolder);
  for (const std::string& folder : folders) {
    if (DialUnix(folder + kSocket).ok()) return UnixAddress(folder + kSocket);
  }
  return DefaultCoordinator();
}

std::vector<ClusterHere> ListClustersHere() {
  const std::string own = Variable(OwnEnvironment(), "XDG_RUNTIME_DIR") + "/strata";
  std::vector<ClusterHere> clusters;
  for (const std::string& folder : Folders()) {
    AddClustersIn(folder, &clusters);
    if (folder == own && !clusters.empty()) break;
  }
  const std::string service = absl::StrCat(kServiceFolder, kSocket);
  if (DialUnix(service).ok()) clusters.push_back({UnixAddress(service), "", /*stays=*/true});
  std::stable_partition(clusters.begin(), clusters.end(),
                        [](const ClusterHere& cluster) { return cluster.stays; });
  return clusters;
}

absl::StatusOr<std::string> CoordinatorOfEnvironment() {
  std::string address = Variable(OwnEnvironment(), "STRATA_COORDINATOR");
  if (address.empty()) return address;
  const std::string wrong = CheckCoordinatorAddress(address);
  if (wrong.empty()) return address;
  return absl::InvalidArgumentError(absl::StrCat("$STRATA_COORDINATOR: ", wrong));
}

absl::Status FindCoordinatorOfDaemon(std::string* address) {
  if (!address->empty()) return absl::OkStatus();
  absl::StatusOr<std::string> named = CoordinatorOfEnvironment();
  if (!named.ok()) return named.status();
  *address = named->empty() ? FindCoordinator() : *std::move(named);
  return absl::OkStatus();
}

std::string OwnCoordinator() {
  // Containers that share the folder may have the same process ids.
  return UnixAddress(absl::StrFormat("%s/%d-%08x", Folder(), getpid(), std::random_device()()));
}

absl::Status MakeCoordinatorFolder() { return MakeSocketFolder(Folder()); }

std::string CheckHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  uint32_t port = 0;
  const bool good = !host.empty() && text.find_first_of(" \t\n") == std::string::npos &&
                    (bracketed || host.find(':') == std::string::npos) &&
                    absl::SimpleAtoi(text.substr(colon + 1), &port) && port >= 1 && port <= 65535;
  return good ? "" : absl::StrCat("expected HOST:PORT, not \"", text, "\"");
}

std::string CheckHostsAndPorts(const std::string& text) {
  const std::vector<std::string> addresses = absl::StrSplit(text, ',');
  if (addresses.size() == 1) return CheckHostAndPort(text);
  if (addresses.size() > control::kAddressesMax) {
    return absl::StrCat(addresses.size(), " addresses are more than ", control::kAddressesMax);
  }
  std::set<std::string> known;
  for (const std::string& address : addresses) {
    if (address.empty()) {
      return absl::StrCat("expected HOST:PORT,HOST:PORT, not \"", text,
                          "\": one of its addresses is empty");
    }
    if (const std::string wrong = CheckHostAndPort(address); !wrong.empty()) return wrong;
    if (!known.insert(address).second) return absl::StrCat(address, " is named twice");
  }
  return "";
}

std::string CheckCoordinatorAddress(const std::string& text) {
  if (const std::optional<std::string> path = UnixPath(text)) {
    if (path->size() > 1 && path->front() == '/') return "";
  }
  if (control::SplitAddresses(text).size() == 1) {
    return CheckHostAndPort(text).empty()
               ? ""
               : absl::StrCat("expected HOST:PORT or unix:/PATH, not \"", text, "\"");
  }
  return CheckHostsAndPorts(text);
}

}  // namespace strata::cli
