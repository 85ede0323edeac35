#include "worker/aggregator/core/rank_watch.h"

#include <algorithm>

namespace strata::worker {

RankWatch::RankWatch(RankId first_rank, uint32_t local_ranks, absl::Time now)
    : first_rank_(first_rank), ranks_(local_ranks, Rank{.since = now}) {}

proto::RankActivity RankWatch::Look(uint32_t local_rank, const Progress& progress, uint32_t chunks,
                                    absl::Time now) {
  Rank& rank = ranks_[local_rank];
  if (!(rank.progress == progress)) rank = {.progress = progress, .since = now};
  proto::RankActivity activity;
  activity.set_rank(first_rank_.value() + local_rank);
  activity.set_clock(progress.steps);
  activity.set_published(progress.published);
  activity.set_chunks(chunks);
  activity.set_waiting(progress.waiting);
  activity.set_idle_ms(absl::ToInt64Milliseconds(now - rank.since));
  return activity;
}

RankWatch::Progress MeasureProgress(const NodeMemory& memory, uint32_t local_rank, uint32_t chunks,
                                    uint64_t least_landed) {
  RankWatch::Progress progress;
  // Read in this order: a rank raises `complete` before it publishes a step's last chunks.
  const uint64_t published = memory.rank(local_rank).published.load();
  progress.steps = memory.rank(local_rank).complete.load();
  const uint64_t before = progress.steps * chunks;
  if (published > before) {
    progress.published = static_cast<uint32_t>(std::min<uint64_t>(published - before, chunks));
  }
  progress.waiting =
      least_landed <= progress.steps || memory.rank(local_rank).awaits_view.load() != 0;
  if (memory.offsets().has_tables) {
    const RowSlot& slot = memory.row_slot(local_rank);
    progress.waiting |= slot.asked.load() != slot.answered.load();
  }
  return progress;
}

uint64_t LeastLanded(const NodeMemory& memory, uint32_t chunks) {
  uint64_t least = UINT64_MAX;
  for (uint32_t c = 0; c < chunks; ++c) {
    least = std::min(least, memory.landed(c).load(std::memory_order_relaxed));
  }
  return least;
}

}  // namespace strata::worker
