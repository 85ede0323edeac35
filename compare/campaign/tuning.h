#ifndef STRATA_COMPARE_CAMPAIGN_TUNING_H_
#define STRATA_COMPARE_CAMPAIGN_TUNING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/analysis.h"
#include "compare/campaign/campaign.pb.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::compare {

// The runs that tune a campaign's modes: each mode at each point of `campaign.tune`, with the seed
// before the campaign's first, which no run of the comparison has; before seed 1 there is none, so
// it is one past the last possible seed of a comparison. Ordered by mode, named by mode and
// settings; accuracy is measured only at the end unless the job says otherwise. Errors: as of
// PlanRuns.
absl::StatusOr<std::vector<RunPlan>> TuningRuns(const proto::Campaign& campaign);

struct Tuned {
  proto::Campaign campaign;  // its modes have the settings of their best points
  std::string words;         // each mode's result and its cost, for the report
};

// Evaluates the records of TuningRuns, in its order. Chooses for each mode the point with the best
// final value of the metric, the earlier of equals, or the first point if none has finished.
Tuned TunedBy(const proto::Campaign& campaign, const std::vector<proto::RunRecord>& records,
              const Metric& metric = {});

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_TUNING_H_
