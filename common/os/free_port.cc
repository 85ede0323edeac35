#include "common/os/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/unique_fd.h"

namespace strata {

std::optional<uint16_t> FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd.get(), raw, length) != 0 || getsockname(fd.get(), raw, &length) != 0) {
    return std::nullopt;
  }
  return ntohs(address.sin_port);
}

}  // namespace strata
