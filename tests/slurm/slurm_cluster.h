#ifndef STRATA_TESTS_SLURM_SLURM_CLUSTER_H_
#define STRATA_TESTS_SLURM_SLURM_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/process.h"

namespace strata::tests {

// A Slurm cluster of the nodes n1 and n2, both this machine, with four CPUs each, as child
// processes in a new folder under /tmp, which goes with this object. No jobs may be left then.
class SlurmCluster {
 public:
  SlurmCluster();
  ~SlurmCluster();

  // Both nodes are idle then. Errors: NotFound (a Slurm program is not installed), DeadlineExceeded
  // with what the daemons wrote.
  absl::Status Start();

  const std::string& dir() const { return dir_; }

  // The standard output of a Slurm command (`sbatch ...`) that succeeds, else what it wrote.
  absl::StatusOr<std::string> Run(const std::vector<std::string>& command);

  // A field of `scontrol show job`, such as JobState; empty: no such job or field.
  std::string JobField(const std::string& job, const std::string& field);
  // Waits until no process of the job is left and returns its state.
  std::string WaitForEnd(const std::string& job);

 private:
  absl::Status Spawn(const std::vector<std::string>& command);
  void WriteConfiguration() const;
  std::string Logs() const;

  std::string dir_;
  std::vector<std::unique_ptr<Process>> daemons_;  // in the order in which they were started
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_SLURM_SLURM_CLUSTER_H_
