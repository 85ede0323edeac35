#include "training/trainer/trainer.h"

#include "training/trainer/rank_trainer.h"

namespace strata::worker {

absl::StatusOr<TrainingOutcome> RunTrainer(const TrainerOptions& options, client::Client& client) {
  return RankTrainer(options, &client).Run();
}

}  // namespace strata::worker
