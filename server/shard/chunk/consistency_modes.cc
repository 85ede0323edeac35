#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {

absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateConsistencyMode(const proto::Job& job,
                                                                       const NodeRanks& ranks) {
  const proto::Lazy& lazy = job.consistency().lazy();
  if (job.consistency().async().has_elastic()) return CreateElasticMode(job, ranks);
  if (job.consistency().has_async()) return CreateAsyncMode(job, ranks);
  if (lazy.quorum().nodes() > 0) return CreateQuorumMode(job, ranks);
  if (lazy.apply() == proto::Lazy::ON_ARRIVAL) return CreateGatedArrivalMode(job, ranks);
  return CreateClockedMode(job, ranks);
}

}  // namespace strata::server
