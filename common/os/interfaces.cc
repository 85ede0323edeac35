#include "common/os/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
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

std::string Ipv4::ToString() const {
  return absl::StrCat(bits >> 24, ".", bits >> 16 & 0xff, ".", bits >> 8 & 0xff, ".", bits & 0xff);
}

std::optional<Ipv4> Ipv4::Parse(const std::string& text) {
  in_addr parsed = {};
  if (inet_pton(AF_INET, text.c_str(), &parsed) != 1) return std::nullopt;
  return Ipv4{ntohl(parsed.s_addr)};
}

bool Ipv4Network::Contains(Ipv4 address) const {
  return prefix_bits == 0 || (address.bits ^ base.bits) >> (32 - prefix_bits) == 0;
}

std::optional<Ipv4Network> Ipv4Network::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::optional<Ipv4> base = Ipv4::Parse(text.substr(0, slash));
  int prefix_bits = 0;
  if (!base.has_value() || !absl::SimpleAtoi(text.substr(slash + 1), &prefix_bits) ||
      prefix_bits < 0 || prefix_bits > 32) {
    return std::nullopt;
  }
  return Ipv4Network{*base, prefix_bits};
}

namespace {

std::string HostOfThisProcess() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network = {};
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) return "";
  return absl::StrCat(boot, ".", network.st_ino);
}

bool Ask(int fd, ifreq* request) { return ioctl(fd, SIOCETHTOOL, request) == 0; }

// Asks the kernel instead of /sys, which may show another network namespace.
double BytesPerSecondOf(const std::string& interface) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // The kernel answers the first call with the number of mask words that it wants, negated.
  constexpr int kMaskWordsMax = 127;
  alignas(ethtool_link_settings) char
      buffer[sizeof(ethtool_link_settings) + 3 * kMaskWordsMax * sizeof(uint32_t)] = {};
  auto* link = reinterpret_cast<ethtool_link_settings*>(buffer);
  link->cmd = ETHTOOL_GLINKSETTINGS;
  ifreq request = {};
  if (interface.size() >= sizeof(request.ifr_name)) return 0;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = buffer;
  if (!Ask(fd.get(), &request) || link->link_mode_masks_nwords >= 0) return 0;
  const int words = -link->link_mode_masks_nwords;
  if (words > kMaskWordsMax) return 0;
  link->cmd = ETHTOOL_GLINKSETTINGS;
  link->link_mode_masks_nwords = static_cast<int8_t>(words);
  if (!Ask(fd.get(), &request)) return 0;
  const uint32_t megabits = link->speed;
  return megabits == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : megabits * 1e6 / 8;
}

}  // namespace

HostLink LinkOfThisHost(const std::string& address) {
  HostLink link{.host = HostOfThisProcess(), .bytes_per_s = 0};
  const std::optional<Ipv4> wanted = Ipv4::Parse(address);
  const auto interfaces = ListInterfaces();
  if (!wanted.has_value() || wanted->is_loopback() || !interfaces.ok()) return link;
  for (const Interface& interface : *interfaces) {
    if (interface.address == *wanted) link.bytes_per_s = BytesPerSecondOf(interface.name);
  }
  return link;
}

}  // namespace strata::net

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
