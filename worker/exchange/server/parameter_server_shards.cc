// The part of ParameterServerCore that knows where shards lie and how the node stands with each.
#include <algorithm>

#include "worker/exchange/server/parameter_server_core.h"

namespace strata::worker {

void ParameterServerCore::OnShardMoved(const ShardMove& move, absl::Time now,
                                       CoreActions* actions) {
  if (phase_ == Exchange::Phase::kFinished || move.shard.value() >= shards_.size()) return;
  Shard& shard = shards_[move.shard.value()];
  if (shard.chunks.empty()) return;
  for (ShardLink& link : shard.links) {
    link.Move(move.address, move.generation, now, &actions->wire);
  }
}

void ParameterServerCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  for (const Shard& shard : shards_) {
    if (shard.chunks.empty()) continue;
    LinkActivity sum = shard.links[0].Activity(now);
    for (size_t i = 1; i < shard.links.size(); ++i) sum.Add(shard.links[i].Activity(now));
    proto::ShardActivity* out = activity->add_shards();
    out->set_address(shard.links[0].address());
    out->set_connected(sum.connected);
    out->set_unanswered(sum.unanswered);
    out->set_oldest_clock(sum.oldest_clock);
    out->set_oldest_chunk(sum.oldest_chunk);
    out->set_oldest_ms(absl::ToInt64Milliseconds(std::max(sum.oldest_age, sum.down_for)));
    out->set_error(sum.error);
  }
}

}  // namespace strata::worker
