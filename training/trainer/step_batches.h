#ifndef STRATA_TRAINING_TRAINER_STEP_BATCHES_H_
#define STRATA_TRAINING_TRAINER_STEP_BATCHES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/data/batch_source.h"
#include "training/trainer/step_plan.h"
#include "worker/client/client_parts.h"

namespace strata::training {

// A rank's batch of each step that it makes. The next one is read ahead where it is known by then
// who makes the next step; else once it is.
//
// Threads: the client's.
class StepBatches {
 public:
  // All outlive it. `source` has given no batch yet.
  StepBatches(BatchSource* source, const ViewPlan& plan, client::ClientViews* views)
      : source_(*source), plan_(plan), views_(*views) {}

  // Returns the batch of the step in hand; valid until the next call. Steps come in order. Errors:
  // the views'. REQUIRES: `by` has this rank.
  absl::StatusOr<const Batch*> Take(uint64_t step, const client::StepRanks& by);
  // Once the batch of the step in hand is no longer used: returns that of the next one, which Take
  // returns again; null where there is none, or it is not known yet. Errors: the views'.
  absl::StatusOr<const Batch*> TakeAhead(uint64_t step, const client::StepRanks& by);

 private:
  void Expect(uint64_t step, const client::StepRanks& by);
  // Asks for the batch of the step after this one, if this rank is known to make that.
  absl::Status ReadAhead(uint64_t step, const client::StepRanks& by);

  BatchSource& source_;
  const ViewPlan& plan_;
  client::ClientViews& views_;
  // Steps before it have been asked for, and who makes the last one of them.
  uint64_t asked_ = 0;
  client::StepRanks newest_;
  const Batch* ahead_ = nullptr;  // of the next step, which TakeAhead has returned
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_STEP_BATCHES_H_
