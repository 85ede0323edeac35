#ifndef STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_
#define STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::cli {

// The default address of a coordinator, "unix:/PATH". Only processes of this user reach it.
std::string DefaultCoordinator();
// The default address for other commands: that one, or one where a coordinator with another
// environment or systemd's unit listens.
std::string FindCoordinator();

// A cluster of this user on this machine, whose coordinator answers at a socket.
struct ClusterHere {
  std::string address;
  std::string command;  // of the command with which it ends, "strata run train.py"; empty: unknown
  bool stays = false;   // it listens at the socket that FindCoordinator uses, and accepts jobs
};
// Returns them, permanent ones first, otherwise by folder and name. If $XDG_RUNTIME_DIR has any,
// other folders are ignored, except that of systemd's unit.
std::vector<ClusterHere> ListClustersHere();

// Returns $STRATA_COORDINATOR, or nothing if it is empty. Errors: InvalidArgument (not an address).
absl::StatusOr<std::string> CoordinatorOfEnvironment();
// Sets a daemon's coordinator if --coordinator does not: $STRATA_COORDINATOR, otherwise the socket
// of this user's permanent cluster. Errors: as above.
absl::Status FindCoordinatorOfDaemon(std::string* address);
// Another such address, for a cluster of this process's own.
std::string OwnCoordinator();
// Creates the folder of both. Errors: those of MakeSocketFolder.
absl::Status MakeCoordinatorFolder();

// Returns what is wrong: "expected HOST:PORT, not ..."; empty: nothing.
std::string CheckHostAndPort(const std::string& text);
// The same for "HOST:PORT,HOST:PORT": one or several, without duplicates.
std::string CheckHostsAndPorts(const std::string& text);
// Returns what is wrong with the address of a coordinator, or with those of several of which one
// leads: "expected HOST:PORT or unix:/PATH, not ..."; empty: nothing.
std::string CheckCoordinatorAddress(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_
