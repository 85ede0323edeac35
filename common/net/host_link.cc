#include "common/net/host_link.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/net/interfaces.h"
#include "common/unique_fd.h"

namespace strata::net {
namespace {

std::string HostOfThisProcess() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network = {};
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) return "";
  return absl::StrCat(boot, ".", network.st_ino);
}

bool Ask(int fd, ifreq* request) { return ioctl(fd, SIOCETHTOOL, request) == 0; }

// Asked of the kernel, not of /sys, which may show another network namespace.
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
