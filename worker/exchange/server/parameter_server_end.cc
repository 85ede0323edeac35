// The part of ParameterServerCore that takes the final weights, once the node has retired, and
// goes.
#include "worker/exchange/server/parameter_server_core.h"

namespace strata::worker {

using Phase = Exchange::Phase;
using wire::Op;

void ParameterServerCore::Cut(Shard* shard, absl::Time now, CoreActions* actions) {
  while (shard->next < shard->chunks.size() && shard->next - shard->confirmed < window_) {
    wire::Header header;
    header.op = Op::kCut;
    header.chunk = shard->chunks[shard->next++].value();
    header.clock = clocks_;
    LinkTo(chunks_[header.chunk])->Ask(header, Bytes(), now, &actions->wire);
  }
}

void ParameterServerCore::OnCutAnswer(Shard* shard, const wire::Frame& frame, absl::Time now,
                                      CoreActions* actions) {
  actions->node.push_back({.kind = NodeAction::Kind::kDeliverFinal,
                           .chunk = ChunkId(frame.header.chunk),
                           .clock = frame.header.clock,
                           .weights = frame.payload});
  ++shard->confirmed;
  Cut(shard, now, actions);
  if (shard->confirmed == shard->chunks.size()) OnShardDone(actions);
}

void ParameterServerCore::OnShardDone(CoreActions* actions) {
  if (++settled_ < shards_.size()) return;
  phase_ = Phase::kFinished;
  Close(actions);
}

void ParameterServerCore::Close(CoreActions* actions) {
  for (Shard& shard : shards_) {
    for (ShardLink& link : shard.links) link.Close(&actions->wire);
  }
}

}  // namespace strata::worker
