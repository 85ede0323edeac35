#include "common/transport/zmq/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace strata::transport {
namespace {

constexpr char kScheme[] = "tcp://";
constexpr size_t kSchemeLength = sizeof kScheme - 1;

bool IsHost(const std::string& host) {
  if (host == "*") return true;
  for (const char c : host) {
    const bool is_name = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
    if (!is_name) return false;
  }
  return !host.empty();
}

}  // namespace

std::string TcpAddress::ToString() const { return absl::StrFormat("tcp://%s:%d", host, port); }

absl::StatusOr<TcpAddress> ParseTcpAddress(const std::string& address) {
  TcpAddress parsed;
  const size_t colon = address.rfind(':');
  const bool has_scheme = address.compare(0, kSchemeLength, kScheme) == 0;
  if (has_scheme && colon != std::string::npos && colon >= kSchemeLength) {
    parsed.host = address.substr(kSchemeLength, colon - kSchemeLength);
    if (IsHost(parsed.host) && absl::SimpleAtoi(address.substr(colon + 1), &parsed.port) &&
        parsed.port >= 0 && parsed.port <= 65535) {
      return parsed;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("address \"%s\" is not tcp://HOST:PORT", address));
}

absl::StatusOr<std::string> ResolveIpv4(const std::string& host) {
  if (host == "*") return "0.0.0.0";
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("host \"%s\": %s", host, gai_strerror(error)));
  }
  char text[INET_ADDRSTRLEN] = {};
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
  freeaddrinfo(found);
  return text;
}

// An address is this host's own if connections to it come from it.
int PortOnThisHost(int fd) {
  sockaddr_in own = {}, peer = {};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return 0;
  }
  if (own.sin_family != AF_INET || own.sin_addr.s_addr != peer.sin_addr.s_addr) return 0;
  return ntohs(peer.sin_port);
}

}  // namespace strata::transport
