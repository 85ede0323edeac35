#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_RUNNER_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_RUNNER_H_

#include <cstdint>
#include <memory>

#include "compare/runner.h"
#include "compare/virtual_time/cluster_file.h"

namespace strata::compare {

// Runs jobs in virtual time on `cluster`; `threads` >= 1 compute gradients, the caller's among
// them. The data of the last job stays in memory for the next one.
std::unique_ptr<Runner> CreateVirtualRunner(ClusterFile cluster, uint32_t threads);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_RUNNER_H_
