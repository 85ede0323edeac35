#ifndef STRATA_CLI_OPTIONS_ADDRESS_OPTIONS_H_
#define STRATA_CLI_OPTIONS_ADDRESS_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/options/invocation.h"
#include "common/control/credentials.h"
#include "common/os/interfaces.h"
#include "common/os/local_address.h"

namespace strata::cli {

// Adds --interface, with a help text on the daemon's use of its address.
void AddInterfaceOption(CLI::App* command, std::string* interface, const std::string& text);

// Adds --link-rate; `gbit_per_s` stays 0 (the interface's rate) if it is not given.
void AddLinkRateOption(CLI::App* command, double* gbit_per_s);
// Returns this host, with the given rate or else that of the interface with the daemon's address.
net::HostLink LinkOfDaemon(const net::AddressChoice& address, double gbit_per_s);

// "7100" or "7100-7119".
struct PortRange {
  uint32_t first = 0;  // 0: not given
  uint32_t last = 0;   // 0: one port was given, not a range
};
absl::StatusOr<PortRange> ParsePortRange(const std::string& text);

// Looks up the coordinator and this host's interfaces and chooses; the text is for the log. Retries
// until `deadline` while the coordinator's name is unknown or has no route: a booting host may get
// its network later. Errors: Unavailable (coordinator), those of net::ChooseAddress;
// FailedPrecondition: others could reach the address of a daemon of a cluster without keys, and
// that was not permitted.
absl::StatusOr<net::AddressChoice> ChooseDaemonAddress(const net::AddressWish& wish,
                                                       const std::string& coordinator,
                                                       const control::Credentials& credentials,
                                                       absl::Duration deadline);

// The addresses on which the coordinator listens.
struct CoordinatorListen {
  std::string address;  // HOST:PORT or unix:/PATH, from --listen; empty: this user's socket
  bool address_given = false;
  std::string interface;
  uint32_t port = 0;  // 0: that of the address
};
// Returns the HOST:PORT or unix:/PATH to listen on. Errors: InvalidArgument; those of the socket's
// folder.
absl::StatusOr<std::string> ChooseListenAddress(const CoordinatorListen& wish);
// Returns "10.0.0.1:7070 (eth0), 192.168.7.2:7070 (eth1)": where other hosts reach a coordinator
// that listens on `host`; for a wildcard all of this host's addresses. Empty: nowhere.
std::string AddressesOfCoordinator(const std::string& host, const std::string& port);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_ADDRESS_OPTIONS_H_
