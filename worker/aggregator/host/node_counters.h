#ifndef STRATA_WORKER_AGGREGATOR_HOST_NODE_COUNTERS_H_
#define STRATA_WORKER_AGGREGATOR_HOST_NODE_COUNTERS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// Whether nothing was pushed or answered since they were shown.
bool Shows(const NodeHeader& header, const ExchangeCounters& counters);
// Shows the node's ranks how its exchange goes.
void ShowCounters(const ExchangeCounters& counters, uint64_t pushes_during_backward,
                  absl::Duration exchange, NodeHeader* header);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_HOST_NODE_COUNTERS_H_
