// The part of ParameterServerCore that takes the place of a process that died: it finds the step
// that this one was in, and the weights that the step begins with.
#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "worker/exchange/server/parameter_server_core.h"

namespace strata::worker {
namespace {

using wire::Op;

// In `received`: the chunk has no first weights yet.
constexpr uint64_t kUnseeded = UINT64_MAX;
// Of a question for no clock, whose answer is taken for none of another one's.
constexpr uint64_t kNoClock = UINT64_MAX;

}  // namespace

void ParameterServerCore::Pull(Shard* shard, absl::Time now, CoreActions* actions) {
  while (shard->next < shard->chunks.size() && shard->next - shard->confirmed < window_) {
    PullOf(shard->chunks[shard->next++], now, actions);
  }
}

void ParameterServerCore::PullOf(ChunkId chunk, absl::Time now, CoreActions* actions) {
  wire::Header header;
  header.op = Op::kPull;
  if (!rejoin_clock_) header.flags = wire::kFlagEmpty;
  header.chunk = chunk.value();
  header.clock = rejoin_clock_.value_or(kNoClock);
  LinkTo(chunks_[chunk.value()])->Ask(header, Bytes(), now, &actions->wire);
}

absl::Status ParameterServerCore::OnPulled(Shard* shard, const wire::Header& asked,
                                           const wire::Frame& frame, absl::Time now,
                                           CoreActions* actions) {
  const wire::Header& header = frame.header;
  const ChunkId id(asked.chunk);
  if (header.received == kUnseeded) {
    OfferOrAsk(id, now, actions);
    return absl::OkStatus();
  }
  Chunk& chunk = chunks_[asked.chunk];
  chunk.received = header.received;
  const bool gives = (header.flags & wire::kFlagEmpty) == 0;
  if (gives) {
    chunk.version = header.version;
    chunk.copy = header.base_version;
    actions->node.push_back(
        {.kind = NodeAction::Kind::kDeliverFirst, .chunk = id, .weights = frame.payload});
  } else if (rejoin_clock_ && header.received >= *rejoin_clock_) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "server %s does not have the weights of chunk %d from before clock %d any more, so that "
        "this process cannot take the place of the one that died there",
        shard->links[0].address(), asked.chunk, *rejoin_clock_));
  }
  ++shard->confirmed;
  Pull(shard, now, actions);
  if (shard->confirmed == shard->chunks.size() && ++settled_ == shards_.size()) {
    OnAllPulled(now, actions);
  }
  return absl::OkStatus();
}

void ParameterServerCore::OnAllPulled(absl::Time now, CoreActions* actions) {
  const uint64_t least = std::min_element(chunks_.begin(), chunks_.end(), [](auto& a, auto& b) {
                           return a.received < b.received;
                         })->received;
  if (rejoin_clock_ && least >= *rejoin_clock_) {
    first_clock_ = *rejoin_clock_;
    for (Chunk& chunk : chunks_) chunk.submitted = chunk.answered = first_clock_;
    phase_ = Exchange::Phase::kTraining;
    return;
  }
  // A server may have died meanwhile, whose other copy never had the last pushes: those of a clock
  // that no node has the weights of. The process that died sends them to nobody any more.
  rejoin_clock_ = least;
  settled_ = 0;
  for (Shard& shard : shards_) {
    shard.next = shard.confirmed = 0;
    if (shard.chunks.empty()) {
      ++settled_;
    } else {
      Pull(&shard, now, actions);
    }
  }
}

}  // namespace strata::worker
