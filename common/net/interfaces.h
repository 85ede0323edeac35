#ifndef STRATA_COMMON_NET_INTERFACES_H_
#define STRATA_COMMON_NET_INTERFACES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/net/ipv4.h"

namespace strata::net {

// One IPv4 address of this host; an interface with several appears several times.
struct Interface {
  std::string name;
  Ipv4 address;
  int prefix_bits = 0;  // of its network
};

// Addresses of the interfaces that are up, in the kernel's order. Errors: the kernel's.
absl::StatusOr<std::vector<Interface>> ListInterfaces();

// Whether there is an interface of this name at all, up or down, with or without an address.
bool HasInterface(const std::string& name);

// The first IPv4 address of a name or address. May block on name service. Errors: NotFound naming
// the host.
absl::StatusOr<Ipv4> Resolve(const std::string& host);

// This host's address on the route to `peer`, by the routing table alone: nothing is sent. Errors:
// Unavailable (no route).
absl::StatusOr<Ipv4> SourceTowards(Ipv4 peer);

}  // namespace strata::net

#endif  // STRATA_COMMON_NET_INTERFACES_H_
