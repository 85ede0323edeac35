#include "common/control/dial.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "common/ipc/unix_socket.h"

namespace strata::control {
namespace {

absl::Status Fail(int error) {
  std::string text = std::strerror(error);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return absl::UnavailableError(text);
}

absl::StatusOr<UniqueFd> Connect(const addrinfo& to, absl::Duration timeout,
                                 absl::Duration silence) {
  UniqueFd fd(socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Fail(errno);
  const int on = 1;
  const unsigned int silence_ms = static_cast<unsigned int>(absl::ToInt64Milliseconds(silence));
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
  if (connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return Fail(errno);
  pollfd ready = {fd.get(), POLLOUT, 0};
  if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) {
    return absl::UnavailableError("no answer");
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Fail(error);
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> DialTcp(const std::string& address, absl::Duration timeout,
                                 absl::Duration silence) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::UnavailableError("expected HOST:PORT");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (code != 0) return absl::UnavailableError(gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  absl::StatusOr<UniqueFd> fd = absl::UnavailableError("unknown host");
  for (const addrinfo* to = found; to != nullptr && !fd.ok(); to = to->ai_next) {
    fd = Connect(*to, timeout, silence);
  }
  return fd;
}

absl::StatusOr<UniqueFd> Dial(const std::string& address, absl::Duration timeout,
                              absl::Duration silence) {
  const std::optional<std::string> path = UnixPath(address);
  return path ? DialUnix(*path) : DialTcp(address, timeout, silence);
}

}  // namespace strata::control
