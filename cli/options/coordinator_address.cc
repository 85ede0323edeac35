#include "cli/options/coordinator_address.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/control/addresses.h"
#include "common/ipc/unix_socket.h"
#include "common/process/environment.h"

namespace strata::cli {
namespace {

constexpr char kSocket[] = "/coordinator";

constexpr size_t kNameBytesMax = 24;

// Those in which a socket's path is not too long.
std::vector<std::string> Folders() {
  std::vector<std::string> folders = SocketFolders(Variable(OwnEnvironment(), "XDG_RUNTIME_DIR"));
  const auto is_too_long = [](const std::string& folder) {
    return folder.size() + kNameBytesMax > kUnixPathBytesMax;
  };
  folders.erase(std::remove_if(folders.begin(), folders.end(), is_too_long), folders.end());
  return folders;
}
// Of the unit for systemd, for root.
constexpr char kServiceFolder[] = "/run/strata-coordinator/strata";

std::string Folder() { return Folders().front(); }

}  // namespace

std::string DefaultCoordinator() { return UnixAddress(Folder() + kSocket); }

std::string FindCoordinator() {
  // Each command has it as a default, and every process makes all commands: it looks once.
  static const std::string found = [] {
    std::vector<std::string> folders = Folders();
    folders.emplace_back(kServiceFolder);
    for (const std::string& folder : folders) {
      if (DialUnix(folder + kSocket).ok()) return UnixAddress(folder + kSocket);
    }
    return DefaultCoordinator();
  }();
  return found;
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
