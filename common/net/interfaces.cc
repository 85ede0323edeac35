#include "common/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace strata::net {
namespace {

Ipv4 AddressOf(const sockaddr* address) {
  return {ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr)};
}

}  // namespace

absl::StatusOr<std::vector<Interface>> ListInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return absl::ErrnoToStatus(errno, "cannot list network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr || item->ifa_addr->sa_family != AF_INET) continue;
    if ((item->ifa_flags & IFF_UP) == 0) continue;
    const uint32_t mask = item->ifa_netmask == nullptr ? 0 : AddressOf(item->ifa_netmask).bits;
    interfaces.push_back({.name = item->ifa_name,
                          .address = AddressOf(item->ifa_addr),
                          .prefix_bits = std::popcount(mask)});
  }
  return interfaces;
}

bool HasInterface(const std::string& name) { return if_nametoindex(name.c_str()) != 0; }

absl::StatusOr<Ipv4> Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found); code != 0) {
    return absl::NotFoundError(
        absl::StrCat("host \"", host, "\" has no IPv4 address: ", gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  return AddressOf(found->ai_addr);
}

absl::StatusOr<Ipv4> SourceTowards(Ipv4 peer) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);  // any: connecting a datagram socket sends nothing
  address.sin_addr.s_addr = htonl(peer.bits);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    return absl::UnavailableError(absl::StrCat("no route to ", peer.ToString(), ": ",
                                               absl::ErrnoToStatus(error, "").message()));
  }
  socklen_t size = sizeof(address);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read a socket's address");
  }
  return AddressOf(reinterpret_cast<sockaddr*>(&address));
}

}  // namespace strata::net
