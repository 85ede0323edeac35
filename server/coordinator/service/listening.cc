#include "server/coordinator/service/listening.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::server {
namespace {

absl::Status Refuse(const std::string& address, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::Status FromErrno(const std::string& address, int error) {
  const std::string line = absl::StrCat("cannot listen on ", address, ": ", std::strerror(error));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(line);
  if (error == EACCES) return absl::PermissionDeniedError(line);
  return absl::InvalidArgumentError(line);
}

void SetPort(sockaddr* address, int port) {
  const auto network = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = network;
  if (address->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address)->sin6_port = network;
}

// errno, 0: listens.
int ListenAt(const addrinfo& at, UniqueFd* listener) {
  listener->Reset(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener->valid()) return errno;
  const int on = 1;
  setsockopt(listener->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens = bind(listener->get(), at.ai_addr, at.ai_addrlen) == 0 &&
                       listen(listener->get(), SOMAXCONN) == 0;
  return listens ? 0 : errno;
}

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> ListenOn(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Refuse(address, "expected HOST:PORT");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = address.substr(colon + 1);
  uint32_t number = 0;
  if (host.empty() || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return Refuse(address, "expected HOST:PORT");
  }
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return Refuse(address, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<UniqueFd> listeners;
  int first_error = 0;
  for (addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (number == 0 && !listeners.empty()) SetPort(at->ai_addr, BoundPort(listeners[0]));
    UniqueFd listener;
    const int error = ListenAt(*at, &listener);
    if (error == EADDRINUSE && number != 0) return FromErrno(address, error);
    if (error != 0 && first_error == 0) first_error = error;
    if (error == 0) listeners.push_back(std::move(listener));
  }
  if (listeners.empty()) return FromErrno(address, first_error);
  return listeners;
}

int BoundPort(const UniqueFd& listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
}

}  // namespace strata::server
