#ifndef STRATA_CLI_CLUSTER_LOCAL_CLUSTER_H_
#define STRATA_CLI_CLUSTER_LOCAL_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/cluster/cluster_run.h"
#include "cli/options/gpu_options.h"
#include "cli/options/invocation.h"
#include "common/cores.h"

namespace strata::cli {

// Returns the number of threads for updates on a machine with this many cores: enough that GPUs do
// not wait, few enough that ranks on the CPU keep theirs.
int DefaultShards(uint32_t cores);

// A whole cluster on this machine.
struct LocalClusterOptions {
  int servers = 1;
  int shards = DefaultShards(UsableCores());  // per server
  int nodes = 1;
  int slots = 0;          // per node; 0: see FillSlots
  GpuOptions gpus;        // shared by the nodes (ShareGpus); ranks_per_gpu is per node
  std::string listen;     // empty: its own socket
  std::string runs_dir;   // also for the daemons' logs; made absolute
  std::string state_dir;  // empty: a temporary one
};

// Adds --servers, --shards, --nodes and --slots, which it returns, and GpuOptions'.
std::vector<CLI::Option*> AddLocalClusterOptions(CLI::App* command, LocalClusterOptions* options);

// Checks that the cluster can run the job at all. Errors: InvalidArgument naming the option.
absl::Status CheckOwnCluster(const proto::Job& job, const LocalClusterOptions& options);

// Returns "ranks: 2, 1 on a node, take 2 of the 3 nodes; the other stays empty", if nodes have at
// most `per_node` ranks; empty if no node stays empty.
std::string EmptyNodesText(uint32_t ranks, uint32_t per_node, uint32_t nodes);
// Prints that on standard output for a job that runs on the cluster, whose slots are filled in.
void PrintEmptyNodes(const proto::Job& job, const LocalClusterOptions& options);

// Sets `options->slots` to the need of `ranks` ranks, unless it was given.
void FillSlots(uint32_t ranks, LocalClusterOptions* options);

// Makes `options->runs_dir` absolute; creates one if it is empty. Errors: see MakeRunsDirectory.
absl::Status ChooseRunsDirectory(LocalClusterOptions* options);

// A node's share of the machine's GPUs.
struct NodeGpus {
  GpuOptions options;
  uint32_t slots = 0;  // ranks that may compute on them at once
};
// Errors: those of FindGpus.
absl::StatusOr<std::vector<NodeGpus>> GpusOfNodes(const LocalClusterOptions& options);

// Runs `run` on such a cluster, whose plan is filled in, and returns the exit status. Errors have
// been printed.
int RunLocalCluster(LocalClusterOptions options, ClusterRun::Options run,
                    const std::string& log_level);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_LOCAL_CLUSTER_H_
