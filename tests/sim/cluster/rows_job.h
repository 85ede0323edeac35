#ifndef STRATA_TESTS_SIM_CLUSTER_ROWS_JOB_H_
#define STRATA_TESTS_SIM_CLUSTER_ROWS_JOB_H_

#include <cstdint>
#include <string>

namespace strata::sim {

// The outcome of a seed.
struct RowsOutcome {
  std::string violation;    // "INVARIANT: what is wrong"; empty: none
  uint64_t looked_up = 0;   // rows
  uint64_t prefetched = 0;  // of these: came with a push's answers
  uint32_t breaks = 0;      // of connections
  uint32_t goes_on = 0;     // times that all processes died and the job went on from a checkpoint
};

// Nodes push rows to real shards and look them up over connections that break, lose what is under
// way, and are slow. Every push counts exactly once. In sync every lookup has the bits of a model
// that adds up each clock by the tree, without nodes that have no gradient of the row. In async a
// node sees its own pushes. In half of the seeds every process dies once or twice, and the job goes
// on from its newest whole checkpoint on another number of shards, which writes of pieces make
// slowly. The seed decides everything, also the mode: async, sync or lazy.
RowsOutcome RunRowsJob(uint64_t seed);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_ROWS_JOB_H_
