#ifndef STRATA_WORKER_AGGREGATOR_TESTING_THREE_NODES_H_
#define STRATA_WORKER_AGGREGATOR_TESTING_THREE_NODES_H_

#include <cstdint>
#include <utility>

#include "proto/record.pb.h"

namespace strata::worker {

// Gives the view, the first of its job, nodes 3, 0 and 1 of 6, 2 and 2 ranks, in this order.
inline void SetThreeNodes(proto::View* view) {
  view->set_number(1);
  uint32_t first = 0;
  for (const auto& [number, ranks] : {std::pair(3u, 6u), std::pair(0u, 2u), std::pair(1u, 2u)}) {
    proto::LogicalNode* const node = view->add_nodes();
    node->set_node(number);
    node->set_first_rank(first);
    node->set_ranks(ranks);
    first += ranks;
  }
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_TESTING_THREE_NODES_H_
