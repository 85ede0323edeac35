#include "cli/commands/sweep_run.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/program/invocation.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "compare/sweep/halving.h"
#include "compare/sweep/sweep_report.h"

namespace strata::cli {
namespace {

// Of a run that is made again by the next call.
proto::RunRecord FailedFromOutside() {
  proto::RunRecord record;
  record.set_failure("from outside");
  return record;
}

}  // namespace

SweepRun::SweepRun(compare::SweepPlan plan, compare::CampaignFolder* folder, compare::Metric metric,
                   Site site)
    : plan_(std::move(plan)),
      folder_(folder),
      metric_(std::move(metric)),
      ends_{.is_live = site.is_live, .dir = site.shares_folder ? folder->checkpoints_dir() : ""},
      course_(metric_) {}

std::vector<size_t> SweepRun::PointsAfter(const std::vector<compare::RungRuns>& rungs) const {
  std::vector<size_t> points;
  if (rungs.empty()) {
    points.resize(plan_.points.size());
    std::iota(points.begin(), points.end(), size_t{0});
    return points;
  }
  const compare::RungRuns& before = rungs.back();
  const std::vector<std::optional<double>> accuracies = compare::MeanAccuracies(before);
  for (const size_t place :
       compare::BestPoints(accuracies, plan_.rungs[rungs.size()].points, metric_.less_is_better)) {
    points.push_back(before.points[place]);
  }
  return points;
}

absl::StatusOr<bool> SweepRun::IsComplete() const {
  std::vector<compare::RungRuns> rungs;
  for (const compare::Rung& rung : plan_.rungs) {
    compare::RungRuns runs{PointsAfter(rungs), {}};
    for (const compare::RunPlan& plan : compare::RunsOfRung(plan_, rung, runs.points)) {
      absl::StatusOr<std::optional<proto::RunRecord>> record = folder_->Load(plan);
      if (!record.ok()) return record.status();
      if (!record->has_value()) return false;
      runs.records.push_back(compare::ByMetric(metric_, **std::move(record)));
    }
    rungs.push_back(std::move(runs));
  }
  return true;
}

int SweepRun::Run(const std::vector<compare::Runner*>& runners) {
  for (const std::string& line : compare::StartsAgainWords(plan_, ends_)) {
    std::printf("%s\n", line.c_str());
  }
  std::vector<compare::RungRuns> rungs;
  for (size_t rung = 0; rung < plan_.rungs.size(); ++rung) {
    auto runs = RunRung(rung, PointsAfter(rungs), runners);
    if (!runs.ok()) return PrintStopped(runs.status());
    rungs.push_back(*std::move(runs));
    if (rung + 1 == plan_.rungs.size()) break;
    const absl::Status status = DeleteCheckpoints(rungs);
    if (!status.ok()) return PrintError(std::string(status.message()), kExitFailed);
  }
  const int reported = Report(rungs);
  const absl::Status status = DeleteCheckpoints(rungs);
  return status.ok() ? reported : PrintError(std::string(status.message()), kExitFailed);
}

absl::StatusOr<std::vector<compare::RunPlan>> SweepRun::RunsOf(
    size_t rung, const std::vector<size_t>& points) const {
  std::vector<compare::RecordPointer> earlier;
  if (rung > 0) {
    for (const compare::RunPlan& run : compare::RunsOfRung(plan_, plan_.rungs[rung - 1], points)) {
      absl::StatusOr<std::optional<proto::RunRecord>> record = folder_->Load(run);
      if (!record.ok()) return record.status();
      earlier.push_back(std::make_shared<proto::RunRecord>(
          record->has_value() ? **std::move(record) : FailedFromOutside()));
    }
  }
  return compare::ChainedRuns(plan_, rung, points, ends_, earlier);
}

absl::Status SweepRun::DeleteCheckpoints(const std::vector<compare::RungRuns>& rungs) {
  // Where a job says where its checkpoints go, they are its user's.
  const bool are_own = std::none_of(
      plan_.points.begin(), plan_.points.end(),
      [](const compare::SweepPoint& point) { return point.plan.job.has_checkpoint(); });
  if (!are_own || ends_.dir.empty() || plan_.rungs.size() == 1) return absl::OkStatus();
  if (rungs.size() == plan_.rungs.size()) return folder_->DeleteAllCheckpoints();
  const std::vector<size_t> next = PointsAfter(rungs);
  const auto goes_on = [&](size_t point) {
    return std::find(next.begin(), next.end(), point) != next.end();
  };
  for (size_t rung = 0; rung < rungs.size(); ++rung) {
    const compare::RungRuns& runs = rungs[rung];
    for (size_t i = 0; i < runs.records.size(); ++i) {
      const bool is_newest = rung + 1 == rungs.size();
      if (is_newest && goes_on(runs.points[i % runs.points.size()])) continue;
      const absl::Status status = folder_->DeleteCheckpoints(runs.records[i]);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<compare::RungRuns> SweepRun::RunRung(size_t rung, std::vector<size_t> points,
                                                    const std::vector<compare::Runner*>& runners) {
  if (plan_.rungs.size() > 1) {
    std::printf("rung %d of %d: %s, 1/%d of the steps\n", static_cast<int>(rung + 1),
                static_cast<int>(plan_.rungs.size()), Counted(points.size(), "point").c_str(),
                static_cast<int>(plan_.rungs[rung].divisor));
    std::fflush(stdout);
  }
  const auto runs = RunsOf(rung, points);
  if (!runs.ok()) return runs.status();
  auto records = course_.Make(*runs, folder_, runners);
  if (!records.ok()) return records.status();
  for (proto::RunRecord& record : *records) {
    record = compare::ByMetric(metric_, std::move(record));
  }
  return compare::RungRuns{std::move(points), *std::move(records)};
}

int SweepRun::PrintStopped(const absl::Status& why) {
  if (absl::IsInvalidArgument(why)) return PrintError(why);
  size_t runs = 0;
  for (const compare::Rung& rung : plan_.rungs) runs += rung.points * plan_.seeds;
  return PrintError(
      absl::StrFormat("%s; %d of %d runs are in %s, the same command goes on with the others",
                      why.message(), course_.done(), runs, folder_->dir()),
      kExitFailed);
}

int SweepRun::Report(const std::vector<compare::RungRuns>& rungs) {
  const proto::Campaign& campaign = folder_->campaign();
  const compare::SweepReport report{
      .title = campaign.job().name(),
      .cluster = campaign.cluster(),
      .halving = campaign.sweep().halving(),
      .plan = plan_,
      .result = compare::RankResults(plan_, rungs, metric_.less_is_better),
      .metric = metric_};
  std::printf("\n%s\n", Table(compare::SweepTable(report)).c_str());
  for (const std::string& line : compare::SweepWords(report)) std::printf("%s\n", line.c_str());
  const std::string& dir = folder_->dir();
  const absl::Status written = compare::WriteSweepReport(report, dir);
  if (!written.ok()) return PrintError(std::string(written.message()), kExitFailed);
  std::printf("\nreport: %s/report/index.html\nfigures: %s/sweep.json\n", dir.c_str(), dir.c_str());
  std::fflush(stdout);
  return kExitOk;
}

}  // namespace strata::cli
