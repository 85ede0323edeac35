#ifndef STRATA_CLI_CLUSTER_HOSTS_FILE_H_
#define STRATA_CLI_CLUSTER_HOSTS_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// A line of a hosts file:
//
//   [USER@]HOST [slots=N] [role=ROLE[,ROLE...]] [address=ADDRESS] [link-rate=GBIT_PER_S]
//       [gpus=INDEX[,INDEX...]|none] [ranks-per-gpu=N]
//
// with the roles coordinator, server, worker and stand-in. Empty lines and what follows a # are
// skipped.
struct Host {
  std::string destination;     // in ssh's syntax: [USER@]HOST
  std::string name;            // HOST; unique in the file
  std::string address;         // where the other hosts reach it; default: HOST
  uint32_t slots = 0;          // 0: not given
  double link_gbit_per_s = 0;  // 0: not given
  std::string gpus;            // like a worker's --gpus; empty: not given
  uint32_t ranks_per_gpu = 0;  // 0: not given
  bool has_role = false;       // false: a worker, and a server if no host has that role
  bool coordinator = false;
  bool server = false;
  bool worker = false;
  bool stand_in = false;
};

// Errors: InvalidArgument "FILE:LINE: what is wrong", also for a file without hosts.
absl::StatusOr<std::vector<Host>> ParseHosts(const std::string& text, const std::string& file);

// A host of bench/netlab.sh, or any other that shares this machine's files and processes.
struct LabHost {
  std::string name;
  std::string address;
  std::vector<std::string> enter;  // the command prefix that runs a command there
};

// Reads a file with a line "NAME ADDRESS COMMAND..." per host. Errors: NotFound, InvalidArgument
// "FILE:LINE: what is wrong".
absl::StatusOr<std::vector<LabHost>> ReadLabHosts(const std::string& path);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_HOSTS_FILE_H_
