#include "worker/client/connect/rank_views.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/job.h"

namespace strata::client {

absl::Status RankViews::Begin(const RunFacts& run) {
  if (!IsElastic(launch_.record().job())) return absl::OkStatus();
  proto::JobRecord record = launch_.record();
  record.mutable_view_changes()->Assign(run.view_changes.begin(), run.view_changes.end());
  absl::StatusOr<Views> views = Views::Of(record);
  if (!views.ok()) return views.status();
  views_ = *std::move(views);
  return absl::OkStatus();
}

absl::Status RankViews::End(uint64_t steps) {
  if (!views_ || !DropsLost(launch_.record().job())) return absl::OkStatus();
  ended_ = steps;
  for (const proto::ViewChange& change : link_->TakeLateChanges()) {
    if (absl::Status added = views_->Add(change); !added.ok()) return added;
  }
  return absl::OkStatus();
}

absl::StatusOr<StepRanks> RankViews::At(uint64_t step) {
  if (ended_) return Of(step < *ended_ ? step : std::max(step, views_->newest_clock()));
  if (views_) {
    const absl::StatusOr<bool> known = link_->LearnViews(step, /*waits=*/true, &*views_);
    if (!known.ok()) return known.status();
  }
  return Of(step);
}

absl::StatusOr<std::optional<StepRanks>> RankViews::AtIfKnown(uint64_t step) {
  if (views_) {
    const absl::StatusOr<bool> known = link_->LearnViews(step, /*waits=*/false, &*views_);
    if (!known.ok()) return known.status();
    if (!*known) return std::nullopt;
  }
  return Of(step);
}

absl::StatusOr<StepRanks> RankViews::Expect(uint64_t step) {
  const absl::StatusOr<StepRanks> ranks = At(step);
  if (!ranks.ok() || ranks->makes_it) return ranks;
  return absl::OutOfRangeError(absl::StrFormat(
      "rank %d leaves the job before step %d: it is to call Finish", launch_.rank(), step));
}

StepRanks RankViews::Of(uint64_t step) const {
  if (!views_) {
    const uint32_t ranks = launch_.record().job().ranks();
    return {.rank = launch_.rank(), .ranks = ranks, .rank_steps_before = step * ranks};
  }
  const std::optional<uint32_t> index = views_->IndexOf(RankId(launch_.rank()), step);
  return {.makes_it = index.has_value(),
          .rank = index.value_or(0),
          .ranks = views_->RanksAt(step),
          .rank_steps_before = views_->RankStepsBefore(step)};
}

}  // namespace strata::client
