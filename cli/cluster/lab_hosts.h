#ifndef STRATA_CLI_CLUSTER_LAB_HOSTS_H_
#define STRATA_CLI_CLUSTER_LAB_HOSTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// A host of bench/netlab.sh, or any other that shares this machine's files and processes.
struct LabHost {
  std::string name;
  std::string address;
  std::vector<std::string> enter;  // what is put before a command to run it there
};

// Reads a file with a line "NAME ADDRESS COMMAND..." per host. Errors: NotFound, InvalidArgument
// "FILE:LINE: what is wrong".
absl::StatusOr<std::vector<LabHost>> ReadLabHosts(const std::string& path);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_LAB_HOSTS_H_
