#include "training/trainer/step_batches.h"

#include <optional>
#include <utility>

namespace strata::training {

absl::StatusOr<const Batch*> StepBatches::Take(uint64_t step, const client::StepRanks& by) {
  if (ahead_ != nullptr) return std::exchange(ahead_, nullptr);
  Expect(step, by);
  const Batch* const batch = &source_.Next();
  if (absl::Status status = ReadAhead(step, by); !status.ok()) return status;
  return batch;
}

absl::StatusOr<const Batch*> StepBatches::TakeAhead(uint64_t step, const client::StepRanks& by) {
  if (absl::Status status = ReadAhead(step, by); !status.ok()) return status;
  if (asked_ <= step + 1) return nullptr;
  ahead_ = &source_.Next();
  if (absl::Status status = ReadAhead(step + 1, newest_); !status.ok()) return status;
  return ahead_;
}

void StepBatches::Expect(uint64_t step, const client::StepRanks& by) {
  if (step < asked_) return;
  source_.Expect(by.rank_steps_before + by.rank);
  asked_ = step + 1;
  newest_ = by;
}

absl::Status StepBatches::ReadAhead(uint64_t step, const client::StepRanks& by) {
  if (asked_ > step + 1 || plan_.IsLast(step, by)) return absl::OkStatus();
  const absl::StatusOr<std::optional<client::StepRanks>> next = views_.AtIfKnown(step + 1);
  if (!next.ok()) return next.status();
  if (next->has_value() && (*next)->makes_it) Expect(step + 1, **next);
  return absl::OkStatus();
}

}  // namespace strata::training
