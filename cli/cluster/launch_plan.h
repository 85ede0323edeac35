#ifndef STRATA_CLI_CLUSTER_LAUNCH_PLAN_H_
#define STRATA_CLI_CLUSTER_LAUNCH_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/cluster/cluster_life.h"
#include "cli/cluster/hosts_file.h"
#include "cli/options/gpu_options.h"

namespace strata::cli {

struct LaunchOptions {
  int servers = -1;              // -1: one per host that has the role, otherwise 1
  int shards = 1;                // per server
  int slots = 0;                 // for hosts whose line does not give it; 0: their cores
  GpuOptions gpus;               // for hosts whose line does not give it
  std::string coordinator_host;  // empty: the host with that role, otherwise the first one
  int port = 0;                  // of the coordinator; 0: any free one
  int server_port = 0;           // of a host's first shard, the others follow; 0: any free ones
  std::string runs_dir;          // on the hosts
};

struct LaunchPlan {
  std::vector<PlannedDaemon> daemons;  // coordinator first
  Host coordinator;
  int servers = 0;
  int workers = 0;
};

// Decides which host runs what. Servers go in turn to the hosts with that role, otherwise to all
// hosts; every host with the role worker, or without any, gets a worker of the host's name; one
// with the role stand-in also gets a worker HOST-stand-in. A host with a numeric address listens
// only on that, others on all interfaces. Errors: InvalidArgument (two coordinators, no worker, a
// coordinator's host that is not in the file, ports past the last one).
absl::StatusOr<LaunchPlan> PlanLaunch(const std::vector<Host>& hosts, const LaunchOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_LAUNCH_PLAN_H_
