#include "common/control/dial.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/control/addresses.h"
#include "common/control/channel.h"
#include "common/os/unix_socket.h"
#include "common/unique_fd.h"

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

namespace {
constexpr char kNotOurs[] = "something listens there that is no coordinator";
}  // namespace

std::string WhyNoHandshake(bool insecure) {
  return absl::StrCat(kNotOurs, insecure ? ", or one that wants keys: leave out --insecure"
                                         : ", or one that was started with --insecure: say that "
                                           "here, too");
}

namespace {

std::string WhyOneUnreachable(const std::string& address, bool insecure) {
  if (const std::optional<std::string> path = UnixPath(address)) {
    const absl::StatusOr<UniqueFd> fd = DialUnix(*path);
    return fd.ok() ? kNotOurs : std::string(fd.status().message());
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "expected HOST:PORT";
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
    return "unknown host";
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit = {1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) {
    return WhyNoHandshake(insecure);
  }
  if (errno == EINPROGRESS || errno == ETIMEDOUT) return "no answer";
  std::string text = std::strerror(errno);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

std::string WhyUnreachable(const std::string& coordinator, bool insecure) {
  const std::vector<std::string> addresses = SplitAddresses(coordinator);
  if (addresses.size() == 1) return WhyOneUnreachable(addresses[0], insecure);
  std::string text;
  for (const std::string& address : addresses) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", address, ": ",
                    WhyOneUnreachable(address, insecure));
  }
  return text;
}

absl::Status GaveUp(const std::string& coordinator, const Credentials& credentials,
                    absl::Duration tried_for, const std::string& why) {
  const bool insecure = credentials.kind() == Credentials::Kind::kInsecure;
  return Unreachable(coordinator, absl::FormatDuration(tried_for),
                     why.empty() ? WhyUnreachable(coordinator, insecure) : why);
}

}  // namespace strata::control
