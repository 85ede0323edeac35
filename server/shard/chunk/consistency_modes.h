#ifndef STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODES_H_
#define STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/exchange/views.h"
#include "proto/job.pb.h"
#include "server/shard/chunk/consistency_mode.h"

namespace strata::server {

// The ranks of a job's nodes, in order of their first rank.
struct NodeRanks {
  // How many take part in a clock.
  uint32_t At(uint64_t clock) const { return views ? views->RanksAt(clock) : total; }

  std::vector<uint32_t> of_node;
  uint32_t total = 0;
  std::shared_ptr<const Views> views;  // null: all of them in each clock
};

// Returns the mode of a job whose defaults are filled in.
// Errors: InvalidArgument, naming the field, where a setting does not go with so many nodes.
absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateConsistencyMode(const proto::Job& job,
                                                                       const NodeRanks& ranks);

// The modes, each in a file of its own. Only CreateConsistencyMode chooses among them.

// sync, lazy(s): the nodes' sum, once per clock; answered within s clocks of the slowest node. So
// sync is lazy with s = 0, bit for bit.
std::unique_ptr<ConsistencyMode> CreateClockedMode(const proto::Job& job, const NodeRanks& ranks);
// lazy(s, on arrival): each push when it comes; answered within s clocks of the slowest node.
std::unique_ptr<ConsistencyMode> CreateGatedArrivalMode(const proto::Job& job,
                                                        const NodeRanks& ranks);
// lazy(0, quorum): the nodes' sum, once per clock, which closes when enough nodes wait in it.
absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateQuorumMode(const proto::Job& job,
                                                                  const NodeRanks& ranks);
// async: each push when it comes, damped or compensated for its delay; answered at once.
std::unique_ptr<ConsistencyMode> CreateAsyncMode(const proto::Job& job, const NodeRanks& ranks);
// async(elastic): each push draws the weights here to the node's; answered at once.
absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateElasticMode(const proto::Job& job,
                                                                   const NodeRanks& ranks);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODES_H_
