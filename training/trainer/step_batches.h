#ifndef STRATA_TRAINING_TRAINER_STEP_BATCHES_H_
#define STRATA_TRAINING_TRAINER_STEP_BATCHES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/data/batch_source.h"
#include "training/trainer/step_plan.h"
#include "worker/client/client_parts.h"

namespace strata::training {

// A rank's batch of each step that it makes. The next batch is read ahead if the ranks of the next
// step are known by then; otherwise as soon as they are.
//
// Threads: the client's.
class StepBatches {
 public:
  // All outlive it. `source` has returned no batch yet.
  StepBatches(BatchSource* source, const ViewPlan& plan, client::ClientViews* views)
      : source_(*source), plan_(plan), views_(*views) {}

  // Returns the batch of the present step; valid until the next call. Steps come in order. Errors:
  // the views'. REQUIRES: `by` has this rank.
  absl::StatusOr<const Batch*> Take(uint64_t step, const client::StepRanks& by);
  // Once the batch of the step in hand is no longer used: returns that of the next one, which Take
  // returns again; null where there is none, or it is not known yet. Errors: the views'.
  absl::StatusOr<const Batch*> TakeAhead(uint64_t step, const client::StepRanks& by);

 private:
  void Expect(uint64_t step, const client::StepRanks& by);
  // Requests the batch of the step after this one, if this rank is known to make that step.
  absl::Status ReadAhead(uint64_t step, const client::StepRanks& by);

  BatchSource& source_;
  const ViewPlan& plan_;
  client::ClientViews& views_;
  // Batches of earlier steps have been requested; and the ranks of the last of these steps.
  uint64_t asked_ = 0;
  client::StepRanks newest_;
  const Batch* ahead_ = nullptr;  // of the next step, returned by TakeAhead
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_STEP_BATCHES_H_
