#ifndef STRATA_CLI_CLUSTER_MPI_RANK_H_
#define STRATA_CLI_CLUSTER_MPI_RANK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "cli/options/job_options.h"

namespace strata::cli {

struct MpiRankOptions {
  JobOptions job;
  std::string plugin;  // empty: libstrata_mpi.so beside this program
  std::string resume;  // the checkpoints to continue from; empty: none
};

// Trains as this MPI process's rank: `mpirun strata rank --job FILE`. Rank 0 prints the progress on
// stdout, and writes metrics.jsonl and the model into the job's run directory. Errors are one line;
// the other ranks' processes are ended then.
absl::Status RunMpiRank(const MpiRankOptions& options, const absl::Notification* stop);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_MPI_RANK_H_
