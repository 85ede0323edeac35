#ifndef STRATA_TESTS_SIM_CLUSTER_STORED_JOB_H_
#define STRATA_TESTS_SIM_CLUSTER_STORED_JOB_H_

#include <cstdint>
#include <string>

namespace strata::sim {

// The outcome of a seed.
struct StoredOutcome {
  std::string violation;  // "INVARIANT: what is wrong"; empty: none
  std::string job;        // JobCase::name
  uint32_t attempts = 0;  // of the job
  uint32_t resumed = 0;   // of these: attempts that resumed from a checkpoint
  uint32_t kept = 0;      // checkpoints
  uint32_t refused = 0;   // that were found damaged
  uint32_t crashes_in_writes = 0;
  uint32_t crashes_in_keeping = 0;  // of these: in writing a manifest, or in the deletions after it
  uint32_t failed_keeps = 0;
  uint32_t moved = 0;  // attempts that continued with another number of nodes
};

// Runs one job to its end on a disk with faults, with real shards, exchanges and ledger, and the
// store work of servers, nodes and coordinator. It is stopped anywhere and continues. The seed
// decides everything.
StoredOutcome RunStoredJob(uint64_t seed);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_STORED_JOB_H_
