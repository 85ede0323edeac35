#ifndef STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_
#define STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace strata::cli {

// The default address of a coordinator, "unix:/PATH". Only processes of this user reach it.
std::string DefaultCoordinator();
// The default address for other commands: that one, or one where a coordinator with another
// environment or systemd's unit listens.
std::string FindCoordinator();

// A cluster of this user on this machine, whose coordinator answers at a socket.
struct ClusterHere {
  std::string address;
  std::string command;  // that it ends with, "strata run train.py"; empty: not known
  bool stays = false;   // one at the socket that FindCoordinator looks for, which takes jobs
};
// Returns them, those that stay first, and of each folder by name. Where $XDG_RUNTIME_DIR has any,
// others' folders are not looked at, but for that of the unit for systemd.
std::vector<ClusterHere> ListClustersHere();

// Returns $STRATA_COORDINATOR, or nothing if it is empty. Errors: InvalidArgument (not an address).
absl::StatusOr<std::string> CoordinatorOfEnvironment();
// Sets a daemon's coordinator where --coordinator does not: $STRATA_COORDINATOR, else the socket of
// this user's cluster that stays. Errors: as above.
absl::Status FindCoordinatorOfDaemon(std::string* address);
// Another such address, for a cluster of this process's own.
std::string OwnCoordinator();
// Makes the folder that both lie in. Errors: those of MakeSocketFolder.
absl::Status MakeCoordinatorFolder();

// Empty, or what is wrong with it: "expected HOST:PORT, not ...".
std::string CheckHostAndPort(const std::string& text);
// Likewise with "HOST:PORT,HOST:PORT", one or several, of which none is named twice.
std::string CheckHostsAndPorts(const std::string& text);
// Empty, or what is wrong with the address of a coordinator, or with those of several of which one
// leads: "expected HOST:PORT or unix:/PATH, not ...".
std::string CheckCoordinatorAddress(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_
