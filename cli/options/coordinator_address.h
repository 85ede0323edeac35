#ifndef STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_
#define STRATA_CLI_OPTIONS_COORDINATOR_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace strata::cli {

// "unix:/PATH": where a coordinator listens that is told nothing else. Only processes of this user
// reach it.
std::string DefaultCoordinator();
// Where the other commands then look for it: there, where one with another environment has
// listened, or where systemd's unit does.
std::string FindCoordinator();
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
