#ifndef STRATA_WORKER_AGENT_CHILD_LAUNCH_H_
#define STRATA_WORKER_AGENT_CHILD_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/os/environment.h"
#include "common/unique_fd.h"
#include "proto/processes.pb.h"

namespace strata::worker {

// How ranks and aggregators are started: descriptors that each inherits.
inline constexpr int kChannelFd = 3;
inline constexpr int kLaunchFd = 4;

// Returns the command line of a rank or of the aggregator, which logs in this process's format; the
// launch file is kLaunchFd.
std::vector<std::string> ChildArguments(const proto::Job& job, bool is_aggregator);
// Returns the variables, "NAME=VALUE", that the rank's program gets in addition to the agent's own:
// the job's, with placeholders in braces replaced (Program.env). `launch` is the rank's.
std::vector<std::string> ChildEnvironment(const proto::Launch& launch);

// The number of threads with which each rank of a node's program computes: the rank's
// OMP_NUM_THREADS.
struct RankThreads {
  std::string environment;  // "OMP_NUM_THREADS=2", unless another variable decides; empty: nothing
  std::string text;         // for the log: "2 threads each: 8 cores for 4 ranks on this machine"
};
// Divides the machine's cores among all ranks on it, also those of other nodes and jobs; each gets
// at least one. A rank that has the machine to itself gets no setting: libraries know best which of
// its processors share a core. `launch` is any of the node's ranks', `own` this process's
// variables.
RankThreads ThreadsOfRanks(const proto::Launch& launch, uint32_t ranks_on_machine,
                           const Environment& own);

// Returns a random name: abstract names are shared by all containers of one network namespace.
std::string RandomSocketName();

// Returns the part of the launch that all processes of a job's node share.
proto::Launch LaunchOfNode(const proto::StartNode& start, const proto::LogicalNode& self);

// Returns a file with the launch that exists only in memory: it holds the job's token, and no crash
// can leave it behind. Errors: the kernel's.
absl::StatusOr<UniqueFd> LaunchFile(const proto::Launch& launch);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CHILD_LAUNCH_H_
