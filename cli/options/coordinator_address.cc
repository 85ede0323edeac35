#include "cli/options/coordinator_address.h"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/ipc/unix_socket.h"
#include "common/process/environment.h"

namespace strata::cli {
namespace {

std::string Folder() { return SocketFolder(Variable(OwnEnvironment(), "XDG_RUNTIME_DIR")); }

}  // namespace

std::string DefaultCoordinator() { return UnixAddress(Folder() + "/coordinator"); }

std::string OwnCoordinator() {
  // Containers that share the folder may have the same process ids.
  return UnixAddress(absl::StrFormat("%s/%d-%08x", Folder(), getpid(), std::random_device()()));
}

absl::Status MakeCoordinatorFolder() { return MakeSocketFolder(Folder()); }

std::string CheckCoordinatorAddress(const std::string& text) {
  if (const std::optional<std::string> path = UnixPath(text)) {
    if (path->size() > 1 && path->front() == '/') return "";
  }
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  uint32_t port = 0;
  const bool good = !host.empty() && (bracketed || host.find(':') == std::string::npos) &&
                    absl::SimpleAtoi(text.substr(colon + 1), &port) && port >= 1 && port <= 65535;
  return good ? "" : absl::StrCat("expected HOST:PORT or unix:/PATH, not \"", text, "\"");
}

}  // namespace strata::cli
