#ifndef STRATA_COMMON_OS_INTERFACES_H_
#define STRATA_COMMON_OS_INTERFACES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::net {

// An IPv4 address as a number in the host's byte order.
struct Ipv4 {
  uint32_t bits = 0;

  bool operator==(const Ipv4&) const = default;
  bool is_loopback() const { return bits >> 24 == 127; }
  bool is_wildcard() const { return bits == 0; }
  std::string ToString() const;

  // Parses "10.0.0.5"; nullopt for anything else.
  static std::optional<Ipv4> Parse(const std::string& text);
};

// A network such as 10.0.0.0/24.
struct Ipv4Network {
  Ipv4 base;
  int prefix_bits = 0;

  bool Contains(Ipv4 address) const;

  // Parses "10.0.0.0/24", also with bits beyond the prefix; nullopt for anything else.
  static std::optional<Ipv4Network> Parse(const std::string& text);
};

// One IPv4 address of this host; an interface with several appears several times.
struct Interface {
  std::string name;
  Ipv4 address;
  int prefix_bits = 0;  // of its network
};

// Addresses of the interfaces that are up, in the kernel's order. Errors: the kernel's.
absl::StatusOr<std::vector<Interface>> ListInterfaces();

// Returns whether an interface of this name exists, up or down, with or without an address.
bool HasInterface(const std::string& name);

// The first IPv4 address of a name or address. May block on name service. Errors: NotFound naming
// the host.
absl::StatusOr<Ipv4> Resolve(const std::string& host);

// This host's address on the route to `peer`, by the routing table alone: nothing is sent. Errors:
// Unavailable (no route).
absl::StatusOr<Ipv4> SourceTowards(Ipv4 peer);

// The facts about a daemon's host that a placement uses.
struct HostLink {
  // Equal for all processes of one machine, or of one container with its own network, and different
  // otherwise; empty: unknown. Not meant for display.
  std::string host;
  double bytes_per_s = 0;  // of the link to other hosts, in each direction; 0: unknown
};

// Reads the kernel's boot id and this process's network namespace. The rate is the driver's for the
// interface that has `address`, a numeric IPv4 address; 0 if unknown, and for loopback. Traffic
// shapers are not detected.
HostLink LinkOfThisHost(const std::string& address);

}  // namespace strata::net

namespace strata {

// Returns a TCP port that nobody listens on now, for another program; some other process may take
// it first. None: the host has none.
std::optional<uint16_t> FreePort();

}  // namespace strata

#endif  // STRATA_COMMON_OS_INTERFACES_H_
