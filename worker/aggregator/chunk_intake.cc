#include "worker/aggregator/chunk_intake.h"

namespace strata::worker {

absl::Status ChunkIntake::LookAtPublished(bool* any) {
  uint64_t published = 0;
  for (uint32_t r = 0; r < ready_.size(); ++r) {
    const RankBlock& rank = memory_.rank(r);
    published_[r] = rank.published.load();
    published += published_[r] + rank.reduced.load();
  }
  if (published == published_seen_) return absl::OkStatus();
  if (absl::Status status = core_.OnPublished(published_); !status.ok()) return status;
  published_seen_ = published;
  for (uint32_t c = 0; c < core_.chunks(); ++c) {
    if (!core_.collecting(ChunkId(c))) continue;
    for (uint32_t r = 0; r < ready_.size(); ++r) ready_[r] = memory_.ready(r, c).load();
    const absl::StatusOr<bool> complete = core_.OnReady(ChunkId(c), ready_);
    if (!complete.ok()) return complete.status();
    if (!*complete) continue;
    if (absl::Status status = CheckRates(core_.clock(ChunkId(c))); !status.ok()) return status;
    const absl::StatusOr<bool> summed = arenas_.BeginSum(ChunkId(c), core_.clock(ChunkId(c)));
    if (!summed.ok()) return summed.status();
    if (!*summed) continue;
    *any = true;
    if (absl::Status status = exchange_.Submit(ChunkId(c)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ChunkIntake::CheckRates(uint64_t step) {
  if (step < rated_) return absl::OkStatus();
  rated_ = step + 1;
  for (uint32_t r = 0; r < rates_.size(); ++r) {
    rates_[r] = memory_.rank(r).rates[step % kSampleSlots].load(std::memory_order_relaxed);
  }
  return core_.OnRates(step, rates_);
}

absl::StatusOr<bool> ChunkIntake::Look() {
  const bool was_busy = arenas_.busy();
  bool any = false;
  if (absl::Status status = LookAtPublished(&any); !status.ok()) return status;
  summed_.clear();
  if (absl::Status status = arenas_.Poll(&summed_); !status.ok()) return status;
  for (ChunkId chunk : summed_) {
    if (absl::Status status = exchange_.Submit(chunk); !status.ok()) return status;
  }
  return any || !summed_.empty() || (was_busy && !arenas_.busy());
}

}  // namespace strata::worker
