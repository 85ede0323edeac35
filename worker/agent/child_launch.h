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

// How ranks and aggregators are started: the descriptors that each inherits.
inline constexpr int kChannelFd = 3;
inline constexpr int kLaunchFd = 4;

// The command line of a rank or of the aggregator, which logs in this process's format; the launch
// file is kLaunchFd.
std::vector<std::string> ChildArguments(const proto::Job& job, bool is_aggregator);
// The variables, "NAME=VALUE", that the rank's program has in its environment besides the agent's
// own: the job's, with what stands in braces replaced (Program.env). `launch` is the rank's.
std::vector<std::string> ChildEnvironment(const proto::Launch& launch);

// How many threads each rank of a node's program computes with: the rank's OMP_NUM_THREADS.
struct RankThreads {
  std::string environment;  // "OMP_NUM_THREADS=2", unless a variable says otherwise; empty: nothing
  std::string text;         // for the log: "2 threads each: 8 cores for 4 ranks on this machine"
};
// The machine's cores are shared by all ranks on it, also those of other nodes and jobs; each has
// one at least. A rank that has the machine to itself is told nothing: libraries know best which of
// its processors share a core. `launch` is any of the node's ranks', `own` this process's
// variables.
RankThreads ThreadsOfRanks(const proto::Launch& launch, uint32_t ranks_on_machine,
                           const Environment& own);

// A random one: abstract names are shared by all containers of one network namespace.
std::string RandomSocketName();

// The part of the launch that all processes of a job's node share.
proto::Launch LaunchOfNode(const proto::StartNode& start, const proto::LogicalNode& self);

// A file with the launch that exists in memory only: it holds the job's token, and no crash can
// leave it behind. Errors: those of the kernel.
absl::StatusOr<UniqueFd> LaunchFile(const proto::Launch& launch);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CHILD_LAUNCH_H_
