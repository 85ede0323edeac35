#include "server/shard/chunk/consistency_policy.h"

#include <algorithm>

namespace strata::server {

ConsistencyPolicy ConsistencyPolicy::Of(const proto::Consistency& consistency) {
  ConsistencyPolicy policy;
  switch (consistency.mode_case()) {
    case proto::Consistency::MODE_NOT_SET:
    case proto::Consistency::kPreset:  // FillDefaults has replaced it
    case proto::Consistency::kSync:
      break;
    case proto::Consistency::kLazy:
      policy.per_clock_ = consistency.lazy().apply() == proto::Lazy::PER_CLOCK;
      policy.staleness_bound_ = consistency.lazy().staleness();
      policy.quorum_ = consistency.lazy().quorum().nodes();
      policy.grace_ = absl::Milliseconds(consistency.lazy().quorum().grace_ms());
      break;
    case proto::Consistency::kAsync:
      policy.per_clock_ = false;
      policy.gated_ = false;
      policy.inverse_damping_ = consistency.async().damping() == proto::Async::INVERSE_STALENESS;
      break;
  }
  return policy;
}

uint32_t ConsistencyPolicy::StalenessOf(uint64_t clock, uint64_t min_clock,
                                        uint32_t versions_behind) const {
  if (!gated_ || has_quorum()) return versions_behind;
  if (min_clock >= clock + 1) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(clock + 1 - min_clock, UINT32_MAX));
}

}  // namespace strata::server
