#include "worker/aggregator/core/aggregator_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/require.h"

namespace strata::worker {
namespace {

// Returns the first tensor that only one of the two has. REQUIRES: all others are the same.
std::string FirstMissing(const proto::Layout& a, const proto::Layout& b) {
  const bool is_in_a = a.segments_size() > b.segments_size();
  const proto::Segment& segment =
      (is_in_a ? a : b).segments(is_in_a ? b.segments_size() : a.segments_size());
  return absl::StrCat(TensorText(segment), is_in_a ? " is missing" : " is one more");
}

}  // namespace

absl::Status CheckSameLayout(RankId first, const proto::Layout& a, RankId other,
                             const proto::Layout& b) {
  const std::string ranks = absl::StrFormat(
      "rank %d registered other tensors than rank %d: ", other.value(), first.value());
  const int both = std::min(a.segments_size(), b.segments_size());
  for (int i = 0; i < both; ++i) {
    const std::string one = TensorText(a.segments(i)), two = TensorText(b.segments(i));
    if (one != two) {
      return absl::InvalidArgumentError(absl::StrCat(ranks, two, " instead of ", one));
    }
  }
  if (a.segments_size() != b.segments_size()) {
    return absl::InvalidArgumentError(absl::StrCat(ranks, b.segments_size(), " of them instead of ",
                                                   a.segments_size(), ": ", FirstMissing(a, b)));
  }
  const std::string tables = TableDifference(a, b);
  if (tables.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("ranks %d and %d registered other tables: %s",
                                                    first.value(), other.value(), tables));
}

AggregatorCore::AggregatorCore(RankId first_rank, uint32_t local_ranks, uint32_t chunks)
    : first_rank_(first_rank), chunks_(chunks), left_(local_ranks) {}

void AggregatorCore::BeginAt(uint64_t clock) {
  for (Chunk& chunk : chunks_) {
    STRATA_REQUIRE(chunk.clock == 0 && !chunk.submitted);
    chunk.clock = clock;
  }
}

std::string AggregatorCore::Name(uint32_t local_rank) const {
  return absl::StrCat("rank ", first_rank_.value() + local_rank);
}

absl::Status AggregatorCore::GoesOn(uint32_t local_rank, uint32_t gone) const {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s has finished after %d steps, but %s goes on", Name(gone), *left_[gone],
                      Name(local_rank)));
}

absl::Status AggregatorCore::OnRates(uint64_t step, absl::Span<const float> rates) const {
  for (uint32_t r = 1; r < rates.size(); ++r) {
    if (rates[r] == rates[0]) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s says learning rate %.9g at step %d, %s %.9g", Name(0), rates[0], step,
                        Name(r), rates[r]));
  }
  return absl::OkStatus();
}

absl::Status AggregatorCore::OnPublished(absl::Span<const uint64_t> published) const {
  for (uint32_t gone = 0; gone < left_.size(); ++gone) {
    if (!left_[gone]) continue;
    for (uint32_t r = 0; r < published.size(); ++r) {
      if (published[r] > *left_[gone] * chunks_.size()) return GoesOn(r, gone);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> AggregatorCore::OnReady(ChunkId chunk, absl::Span<const uint64_t> ready) {
  Chunk& state = chunks_[chunk.value()];
  bool all = true;
  for (uint64_t steps : ready) all = all && steps > state.clock;
  if (all) {
    state.submitted = true;
    ++under_way_;
    return true;
  }
  for (uint32_t gone = 0; gone < left_.size(); ++gone) {
    if (!left_[gone] || *left_[gone] > state.clock) continue;
    for (uint32_t r = 0; r < ready.size(); ++r) {
      if (ready[r] > state.clock) return GoesOn(r, gone);
    }
  }
  return false;
}

uint64_t AggregatorCore::OnSummed(ChunkId chunk, absl::Span<const uint64_t> complete) {
  const uint64_t clock = chunks_[chunk.value()].clock;
  for (uint64_t steps : complete) {
    if (steps > clock) continue;
    ++pushes_during_backward_;
    break;
  }
  return clock + 1;
}

uint64_t AggregatorCore::OnLanded(ChunkId chunk, uint64_t clock) {
  chunks_[chunk.value()] = {.clock = clock + 1, .submitted = false};
  --under_way_;
  return clock + 2;
}

absl::Status AggregatorCore::OnLeave(uint32_t local_rank, uint64_t steps) {
  for (uint32_t r = 0; r < left_.size(); ++r) {
    if (!left_[r] || *left_[r] == steps) continue;
    return absl::InvalidArgumentError(absl::StrFormat("%s has finished after %d steps, %s after %d",
                                                      Name(r), *left_[r], Name(local_rank), steps));
  }
  left_[local_rank] = steps;
  return absl::OkStatus();
}

std::optional<uint64_t> AggregatorCore::steps() const {
  for (const std::optional<uint64_t>& left : left_) {
    if (!left) return std::nullopt;
  }
  return left_[0];
}

}  // namespace strata::worker
