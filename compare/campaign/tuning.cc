#include "compare/campaign/tuning.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/campaign/sweep_plan.h"
#include "compare/curve.h"
#include "compare/figure_text.h"

namespace strata::compare {
namespace {

std::vector<GridPoint> PointsOf(const proto::Campaign& campaign) {
  return MakeGrid({campaign.tune().begin(), campaign.tune().end()});
}

// More seeds of the comparison, up to kSeedsMax, leave it free.
uint64_t TuningSeed(const proto::Campaign& campaign) {
  const uint64_t first = campaign.job().seed();
  return first > 1 ? first - 1 : first + kSeedsMax;
}

std::string AtPoint(const std::string& mode, const GridPoint& point) {
  return absl::StrCat(mode, "+", point.name);
}

std::string WordsOf(const std::vector<std::string>& found, size_t points,
                    const std::vector<proto::RunRecord>& records, const Metric& metric) {
  double trained_s = 0;
  for (const proto::RunRecord& record : records) trained_s += record.trained_s();
  return absl::StrFormat(
      "Tuned: each mode was given the same %s with seed %d, which is none of the comparison's, and "
      "runs with the best by final %s: %s. That took %s and %s of training, which no figure here "
      "counts.",
      Counted(points, "point"), records.front().seed(),
      metric.is_accuracy() ? "accuracy on the test data" : metric.name, absl::StrJoin(found, "; "),
      Counted(records.size(), "run"), SecondsText(trained_s));
}

}  // namespace

absl::StatusOr<std::vector<RunPlan>> TuningRuns(const proto::Campaign& campaign) {
  CampaignRequest request;
  request.job = campaign.job();
  request.job.set_seed(TuningSeed(campaign));
  std::vector<std::string> modes;
  for (const std::string& mode : campaign.modes()) {
    for (const GridPoint& point : PointsOf(campaign)) modes.push_back(AtPoint(mode, point));
  }
  request.modes = absl::StrJoin(modes, ",");
  const absl::StatusOr<proto::Campaign> tuning = PlanCampaign(request);
  if (!tuning.ok()) return tuning.status();
  absl::StatusOr<std::vector<RunPlan>> runs = PlanRuns(*tuning);
  if (!runs.ok()) return runs.status();
  const proto::Evaluation& evaluation = campaign.job().evaluation();
  if (evaluation.every_epochs() > 0 || evaluation.every_steps() > 0) return runs;
  for (RunPlan& run : *runs) {
    if (run.job.has_program()) continue;
    const absl::StatusOr<uint64_t> steps = TotalSteps(run.job);
    if (!steps.ok()) return steps.status();
    if (*steps <= UINT32_MAX) run.job.mutable_evaluation()->set_every_steps(*steps);
  }
  return runs;
}

Tuned TunedBy(const proto::Campaign& campaign, const std::vector<proto::RunRecord>& records,
              const Metric& metric) {
  const std::vector<GridPoint> points = PointsOf(campaign);
  Tuned tuned{campaign, ""};
  std::vector<std::string> found;
  for (int mode = 0; mode < campaign.modes_size(); ++mode) {
    std::vector<std::optional<double>> accuracies;
    for (size_t point = 0; point < points.size(); ++point) {
      const proto::RunRecord record = ByMetric(metric, records[mode * points.size() + point]);
      const bool finished = RunFailure(record).empty();
      accuracies.push_back(finished ? std::optional(record.measurements().rbegin()->accuracy())
                                    : std::nullopt);
    }
    const size_t best = BestPoints(accuracies, 1, metric.less_is_better).front();
    const std::string& name = campaign.modes(mode);
    tuned.campaign.set_modes(mode, AtPoint(name, points[best]));
    found.push_back(absl::StrCat(
        name, " ", absl::StrJoin(points[best].settings, ", "), " (",
        accuracies[best] ? ValueText(metric, *accuracies[best], 2) : "no point has finished", ")"));
  }
  tuned.words = WordsOf(found, points.size(), records, metric);
  return tuned;
}

}  // namespace strata::compare
