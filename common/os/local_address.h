#ifndef STRATA_COMMON_OS_LOCAL_ADDRESS_H_
#define STRATA_COMMON_OS_LOCAL_ADDRESS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/interfaces.h"

namespace strata::net {

// The user's options for a daemon's addresses; empty: not given.
struct AddressWish {
  std::string interface;  // name or network: "eth1", "10.0.0.0/24"
  std::string listen;     // host to bind to; "*" and "0.0.0.0" mean all interfaces
  std::string advertise;  // host name at which peers reach the daemon
};

// Facts about this host. ChooseAddress itself looks nothing up.
struct HostFacts {
  std::vector<Interface> interfaces;
  std::function<bool(const std::string&)> has_interface;            // even if down or without an
                                                                    // address
  std::function<absl::StatusOr<Ipv4>(const std::string&)> resolve;  // of a host name
};

struct AddressChoice {
  std::string listen;     // numeric
  std::string advertise;  // numeric, or the user's text
  std::string text;       // one line for the log: the choice, the reason, and the alternatives
};

// Chooses the daemon's addresses. By default it is the source address of the route to the
// coordinator (`source`), so loopback only if the coordinator is on loopback. Pure. Errors:
// InvalidArgument in one line that names the option.
absl::StatusOr<AddressChoice> ChooseAddress(const AddressWish& wish, const HostFacts& facts,
                                            const std::string& coordinator, Ipv4 source);

// Finds the one address that an --interface option means. Errors: InvalidArgument: unknown
// interface, one without an IPv4 address or with several, a network with none of this host's
// addresses or several.
absl::StatusOr<Interface> FindInterface(const std::string& name_or_network, const HostFacts& facts);

// "10.0.0.5 (eth0), 192.168.7.2 (eth1)": all but loopback and `except`.
std::string OtherAddresses(const std::vector<Interface>& interfaces, Ipv4 except);

}  // namespace strata::net

#endif  // STRATA_COMMON_OS_LOCAL_ADDRESS_H_
