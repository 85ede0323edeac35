#include "server/coordinator/listen_check.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

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

}  // namespace

absl::Status CheckListenable(const std::string& address) {
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
  const UniqueFd socket_fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.valid()) return FromErrno(address, errno);
  const int on = 1;
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket_fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(socket_fd.get(), 1) != 0) {
    return FromErrno(address, errno);
  }
  return absl::OkStatus();
}

}  // namespace strata::server
