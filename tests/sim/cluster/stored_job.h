#ifndef STRATA_TESTS_SIM_CLUSTER_STORED_JOB_H_
#define STRATA_TESTS_SIM_CLUSTER_STORED_JOB_H_

#include <cstdint>
#include <string>

namespace strata::sim {

// What became of a seed.
struct StoredOutcome {
  std::string violation;  // "INVARIANT: what is wrong"; empty: nothing is
  std::string job;        // JobCase::name
  uint32_t attempts = 0;  // of the job
  uint32_t resumed = 0;   // of them: that went on from a checkpoint
  uint32_t kept = 0;      // checkpoints
  uint32_t refused = 0;   // that were found to be damaged
  uint32_t crashes_in_writes = 0;
  uint32_t crashes_in_keeping = 0;  // of those: of a manifest, or of what is deleted then
  uint32_t failed_keeps = 0;
  uint32_t moved = 0;  // attempts that continued with another number of nodes
};

// Runs one job to its end, on a disk with faults, with real shards, exchanges, ledger, and work of
// servers, nodes and coordinator in the store: it is stopped anywhere, and continues. The seed
// decides all of it.
StoredOutcome RunStoredJob(uint64_t seed);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_STORED_JOB_H_
