#include "cli/commands/comparison.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/program/invocation.h"
#include "cli/render/comparison/compare_display.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/campaign/divergence.h"
#include "compare/report/report.h"
#include "compare/sweep/tuning.h"

namespace strata::cli {

Comparison::Comparison(Options options) : options_(std::move(options)), course_(options_.metric) {}

int Comparison::Run(compare::Runner* runner) {
  if (options_.to_tune) {
    const absl::Status status = Tune(runner);
    if (!status.ok()) return PrintStopped(status);
  }
  auto records = Make(options_.plans, runner);
  if (records.ok()) return Report(*std::move(records));
  return PrintStopped(records.status());
}

absl::StatusOr<std::vector<proto::RunRecord>> Comparison::Make(
    const std::vector<compare::RunPlan>& plans, compare::Runner* runner) {
  std::vector<compare::Runner*> runners;
  if (runner != nullptr) runners.push_back(runner);
  runs_ += plans.size();
  return course_.Make(plans, options_.folder, runners);
}

absl::Status Comparison::Tune(compare::Runner* runner) {
  const auto runs = compare::TuningRuns(*options_.to_tune);
  if (!runs.ok()) return runs.status();
  std::printf("tuning: %s\n", Counted(runs->size(), "run").c_str());
  std::fflush(stdout);
  const auto records = Make(*runs, runner);
  if (!records.ok()) return records.status();
  const compare::Tuned tuned = compare::TunedBy(*options_.to_tune, *records, options_.metric);
  tuning_ = tuned.words;
  std::printf("%s\n", tuning_.c_str());
  std::fflush(stdout);
  auto plans = compare::PlanRuns(tuned.campaign);
  if (!plans.ok()) return plans.status();
  options_.plans = *std::move(plans);
  options_.modes = {tuned.campaign.modes().begin(), tuned.campaign.modes().end()};
  return absl::OkStatus();
}

absl::StatusOr<bool> Comparison::IsComplete() const {
  std::vector<compare::RunPlan> plans = options_.plans;
  if (options_.to_tune) {
    const auto runs = compare::TuningRuns(*options_.to_tune);
    if (!runs.ok()) return runs.status();
    std::vector<proto::RunRecord> records;
    for (const compare::RunPlan& run : *runs) {
      auto record = options_.folder->Load(run);
      if (!record.ok()) return record.status();
      if (!record->has_value()) return false;
      records.push_back(**std::move(record));
    }
    auto tuned =
        compare::PlanRuns(compare::TunedBy(*options_.to_tune, records, options_.metric).campaign);
    if (!tuned.ok()) return tuned.status();
    plans = *std::move(tuned);
  }
  const absl::StatusOr<size_t> there = options_.folder->CountFinished(plans);
  if (!there.ok()) return there.status();
  return *there == plans.size();
}

int Comparison::PrintStopped(const absl::Status& why) {
  if (absl::IsInvalidArgument(why)) return PrintError(why);
  return PrintError(
      absl::StrFormat("%s; %d of %d runs are in %s, the same command goes on with the others",
                      why.message(), course_.done(), runs_, options_.folder->dir()),
      kExitFailed);
}

int Comparison::Report(std::vector<proto::RunRecord> records) {
  compare::ReportInput input;
  const proto::Job& job = options_.folder->campaign().job();
  input.title = job.name();
  input.modes = options_.modes;
  for (proto::RunRecord& record : records) {
    input.runs.push_back(compare::ByMetric(options_.metric, std::move(record)));
  }
  input.straggler = StragglerWords(job);
  input.tuning = tuning_;
  input.target_accuracy = options_.target_accuracy;
  input.equivalence_margin = options_.equivalence_margin;
  input.metric = options_.metric;
  const absl::StatusOr<compare::Summary> summary = compare::Summarize(input);
  if (!summary.ok()) return PrintError(summary.status());
  std::printf("\n%s\n", Table(summary->rows).c_str());
  for (const std::string& line : summary->verdict) std::printf("%s\n", line.c_str());
  const std::string& dir = options_.folder->dir();
  const absl::Status written = compare::WriteReport(input, dir);
  if (!written.ok()) return PrintError(std::string(written.message()), kExitFailed);
  std::printf("\nreport: %s/report/index.html\nfigures: %s/report.json\n", dir.c_str(),
              dir.c_str());
  std::fflush(stdout);
  // Divergence is a result.
  const auto failed = [](const proto::RunRecord& run) {
    return !run.failure().empty() && !compare::HasDiverged(run.failure());
  };
  if (!std::all_of(input.runs.begin(), input.runs.end(), failed)) return kExitOk;
  return PrintError(absl::StrCat("no run is of use: ", input.runs.front().failure()), kExitFailed);
}

}  // namespace strata::cli
