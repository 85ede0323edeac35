#ifndef STRATA_COMMON_NET_HOST_LINK_H_
#define STRATA_COMMON_NET_HOST_LINK_H_

#include <string>

namespace strata::net {

// What a placement wants to know of the host that a daemon runs on.
struct HostLink {
  // Alike for all processes of one machine, or one container with a network of its own, and for
  // no others; empty: unknown. Says nothing to people.
  std::string host;
  double bytes_per_s = 0;  // of the link to other hosts, each way; 0: unknown
};

// Reads the kernel's boot id and this process's network namespace. The rate is that of the
// interface which has `address`, a numeric IPv4 address, as its driver gives it: 0 where it does
// not, and for loopback. A shaper in the way is not seen.
HostLink LinkOfThisHost(const std::string& address);

}  // namespace strata::net

#endif  // STRATA_COMMON_NET_HOST_LINK_H_
