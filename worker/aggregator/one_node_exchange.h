#ifndef STRATA_WORKER_AGGREGATOR_ONE_NODE_EXCHANGE_H_
#define STRATA_WORKER_AGGREGATOR_ONE_NODE_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "proto/record.pb.h"
#include "worker/aggregator/host/node_arenas.h"
#include "worker/exchange/peerless_exchange.h"

namespace strata::worker {

// Whether the job's ranks share one node, and get the mean of their gradients back as it is: what
// OneNodeExchange is for. A job whose chunks are traced takes the general way, which notes them.
bool IsMeanOfOneNode(const proto::JobRecord& record);

// A ring of one node, whose ranks have optimizers of their own: no other node adds to the sums, so
// that each is written where the ranks read it, in one pass, with the bits of the general way.
//
// Threads: one.
class OneNodeExchange final : public PeerlessExchange {
 public:
  // `arenas` of `chunks` chunks outlive this. `wake_fd`: see Exchange::Poll.
  OneNodeExchange(NodeArenas* arenas, uint32_t chunks, int wake_fd)
      : PeerlessExchange(wake_fd), arenas_(arenas), clocks_(chunks, 0) {}

  absl::Status Submit(ChunkId chunk) override;

 private:
  NodeArenas* const arenas_;
  std::vector<uint64_t> clocks_;  // by chunk: the next one
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_ONE_NODE_EXCHANGE_H_
