#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands/commands.h"
#include "cli/commands/run_site.h"
#include "cli/options/interrupt.h"
#include "cli/options/invocation.h"
#include "cli/options/options.h"
#include "cli/options/own_binary.h"
#include "cli/options/program_job.h"
#include "cli/options/terminal.h"
#include "cli/render/compare_display.h"
#include "cli/render/progress.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "compare/analysis.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/campaign/course.h"
#include "compare/campaign/sweep_plan.h"
#include "compare/campaign/sweep_report.h"
#include "compare/campaign/sweep_result.h"
#include "compare/runner.h"

namespace strata::cli {
namespace {

// The runs of `strata sweep`, rung by rung, shown on standard output, and the report. It knows the
// cluster as runners alone.
//
// Threads: Run one's; Stop any.
class SweepRun {
 public:
  struct Site {
    bool is_live = false;        // else in virtual time
    bool shares_folder = false;  // all hosts of the live cluster see the sweep's folder
    std::string same_command = "the same command";  // that continues with existing runs
  };
  // `folder` outlives it.
  SweepRun(compare::SweepPlan plan, compare::CampaignFolder* folder, compare::Metric metric,
           Site site);

  // Makes missing runs, as many at once as there are runners, then the report. Returns the exit
  // status, after it has printed what is wrong and how to continue.
  int Run(const std::vector<compare::Runner*>& runners);
  // Run ends soon, also one that begins later; the runs that are made stay.
  void Stop() { course_.Stop(); }

  // Returns whether no run is missing; then Run needs no runner. Errors as of CampaignFolder::Load.
  absl::StatusOr<bool> IsComplete() const;

 private:
  // Returns the runs of the rung that follows these.
  std::vector<size_t> PointsAfter(const std::vector<compare::RungRuns>& rungs) const;
  // `before`: the rungs that have been run.
  absl::StatusOr<compare::RungRuns> RunRung(const std::vector<compare::RungRuns>& before,
                                            const std::vector<compare::Runner*>& runners);
  // Returns the runs of a rung, with the checkpoints they start from: the rung before has been run.
  absl::StatusOr<std::vector<compare::RunPlan>> RunsOf(size_t rung,
                                                       const std::vector<size_t>& points) const;
  // Deletes checkpoints in the sweep's folder that no run needs any more.
  absl::Status DeleteCheckpoints(const std::vector<compare::RungRuns>& rungs);
  compare::SweepReport ReportOf(const std::vector<compare::RungRuns>& rungs) const;
  // Renews the report after one of these runs, of a rung's points, which follows those before.
  void ReportSoFar(std::vector<compare::RungRuns> rungs, const std::vector<size_t>& points,
                   const std::vector<compare::RunPlan>& runs,
                   const compare::CourseProgress& progress);
  int Report(const std::vector<compare::RungRuns>& rungs);
  int PrintStopped(const absl::Status& why);

  const compare::SweepPlan plan_;
  compare::CampaignFolder* folder_;
  const compare::Metric metric_;
  const compare::EndsIn ends_;
  const std::string same_command_;
  ShownCourse course_;
  bool has_page_ = false;
};

// Returns a record that makes the next call repeat the run.
proto::RunRecord FailedFromOutside() {
  proto::RunRecord record;
  record.set_failure("from outside");
  return record;
}

SweepRun::SweepRun(compare::SweepPlan plan, compare::CampaignFolder* folder, compare::Metric metric,
                   Site site)
    : plan_(std::move(plan)),
      folder_(folder),
      metric_(std::move(metric)),
      ends_{.is_live = site.is_live, .dir = site.shares_folder ? folder->checkpoints_dir() : ""},
      same_command_(std::move(site.same_command)),
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
    PrintF(stdout, "%s\n", line);
  }
  std::vector<compare::RungRuns> rungs;
  for (size_t rung = 0; rung < plan_.rungs.size(); ++rung) {
    auto runs = RunRung(rungs, runners);
    if (!runs.ok()) return PrintStopped(runs.status());
    rungs.push_back(*std::move(runs));
    const bool is_of_use = compare::WhyNoneIsOfUse(rungs.back().records).empty();
    if (rung + 1 == plan_.rungs.size() || !is_of_use) break;
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
  // Checkpoints in a folder that the job names are the user's.
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

absl::StatusOr<compare::RungRuns> SweepRun::RunRung(const std::vector<compare::RungRuns>& before,
                                                    const std::vector<compare::Runner*>& runners) {
  const size_t rung = before.size();
  std::vector<size_t> points = PointsAfter(before);
  if (plan_.rungs.size() > 1) {
    PrintF(stdout, "rung %d of %d: %s, 1/%d of the steps\n", static_cast<int>(rung + 1),
           static_cast<int>(plan_.rungs.size()), Counted(points.size(), "point"),
           static_cast<int>(plan_.rungs[rung].divisor));
    std::fflush(stdout);
  }
  const auto runs = RunsOf(rung, points);
  if (!runs.ok()) return runs.status();
  auto records = course_.Make(*runs, folder_, runners, [&](const auto& progress) {
    ReportSoFar(before, points, *runs, progress);
  });
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
      absl::StrFormat("%s; %d of %d runs are in %s, %s goes on with the others", why.message(),
                      course_.done(), runs, folder_->dir(), same_command_),
      kExitFailed);
}

compare::SweepReport SweepRun::ReportOf(const std::vector<compare::RungRuns>& rungs) const {
  const proto::Campaign& campaign = folder_->campaign();
  return {.title = campaign.job().name(),
          .cluster = campaign.cluster(),
          .halving = campaign.sweep().halving(),
          .plan = plan_,
          .result = compare::RankResults(plan_, rungs, metric_.less_is_better),
          .metric = metric_};
}

void SweepRun::ReportSoFar(std::vector<compare::RungRuns> rungs, const std::vector<size_t>& points,
                           const std::vector<compare::RunPlan>& runs,
                           const compare::CourseProgress& progress) {
  const bool is_last_rung = rungs.size() + 1 == plan_.rungs.size();
  if (is_last_rung && progress.made == progress.to_make) return;  // the whole one follows
  std::vector<std::optional<proto::RunRecord>> records;
  for (const compare::RunPlan& run : runs) {
    absl::StatusOr<std::optional<proto::RunRecord>> record = folder_->Load(run);
    const bool is_made = record.ok() && record->has_value();
    records.push_back(is_made ? std::optional(compare::ByMetric(metric_, **std::move(record)))
                              : std::nullopt);
  }
  rungs.push_back(compare::MadeOf(points, records));
  if (rungs.front().points.empty()) return;
  compare::SweepReport report = ReportOf(rungs);
  const std::optional<double> left_s = SecondsLeft(progress);
  report.under_way =
      absl::StrCat(progress.runs - progress.to_make + progress.made, " of ", progress.runs, " runs",
                   plan_.rungs.size() > 1
                       ? absl::StrFormat(" of rung %d of %d", rungs.size(), plan_.rungs.size())
                       : "",
                   " are made", left_s ? ", about " + FormatDuration(*left_s) + " left" : "");
  const std::string& dir = folder_->dir();
  const absl::Status written = compare::WriteSweepReport(report, dir);
  // The report at the end fails with the same words.
  if (!written.ok() || has_page_) return;
  has_page_ = true;
  PrintF(stdout, "report, renewed after each run: %s/report/index.html\n", dir);
  std::fflush(stdout);
}

int SweepRun::Report(const std::vector<compare::RungRuns>& rungs) {
  const compare::SweepReport report = ReportOf(rungs);
  PrintText(stdout, absl::StrCat("\n", Table(compare::SweepTable(report)), "\n"));
  for (const std::string& line : compare::SweepWords(report)) PrintF(stdout, "%s\n", line);
  const std::string& dir = folder_->dir();
  const absl::Status written = compare::WriteSweepReport(report, dir);
  if (!written.ok()) return PrintError(std::string(written.message()), kExitFailed);
  PrintF(stdout, "\nreport: %s/report/index.html\nfigures: %s/sweep.json\n", dir, dir);
  std::fflush(stdout);
  const std::string why = compare::WhyNoneIsOfUse(rungs.back().records);
  if (why.empty()) return kExitOk;
  const std::string which =
      plan_.rungs.size() > 1 ? absl::StrCat("no run of rung ", rungs.size()) : "no run";
  return PrintError(absl::StrCat(which, " is of use: ", why), kExitFailed);
}

// A thread and two connections each; more would rather measure this process.
constexpr uint32_t kAtOnceMax = 64;

struct SweepOptions {
  ComparedJob compared;
  compare::Metric metric;
  std::vector<std::string> vary;
  uint32_t seeds = 1;
  uint32_t halving = 0;
  uint32_t at_once = kAtOnceMax;
  std::string out;  // empty: one by the time
  std::string same_command = "the same command";
  SiteOptions site;
};

// The first of the points' jobs that have the most ranks.
const proto::Job& LargestJob(const compare::SweepPlan& plan) {
  return std::max_element(plan.points.begin(), plan.points.end(),
                          [](const compare::SweepPoint& a, const compare::SweepPoint& b) {
                            return a.plan.job.ranks() < b.plan.job.ranks();
                          })
      ->plan.job;
}

// Returns the runs of the first rung, which has all points.
std::vector<compare::RunPlan> FirstRuns(const compare::SweepPlan& plan) {
  std::vector<size_t> points(plan.points.size());
  std::iota(points.begin(), points.end(), size_t{0});
  return compare::RunsOfRung(plan, plan.rungs.front(), points);
}

// Makes runs and report of the checked options. `interrupt`: null for a cluster of its own.
int RunSweep(const SweepOptions& options, const RunSite& site, const proto::Campaign& asked,
             compare::SweepPlan plan, const std::string& log_level, Interrupt* interrupt) {
  const std::string out = std::filesystem::absolute(options.out).lexically_normal();
  const auto folder = compare::CampaignFolder::Open(out, asked);
  if (!folder.ok()) return PrintError(folder.status());
  if (auto status = (*folder)->Begin(); !status.ok()) return PrintError(status);
  const std::vector<compare::RunPlan> runs = FirstRuns(plan);
  const absl::StatusOr<size_t> there = (*folder)->CountFinished(runs);
  if (!there.ok()) return PrintError(there.status());
  SiteWork work;
  work.runners = RunsAtOnce(runs, site, options.at_once);
  work.jobs_dir = (*folder)->jobs_dir();
  PrintF(stdout, "%s x %s in %s, %d runs of the first there already, %d at once; %s\n",
         Counted(plan.points.size(), "point"), Counted(plan.seeds, "seed"),
         Counted(plan.rungs.size(), "rung"), static_cast<int>(*there),
         static_cast<int>(work.runners), site.words);
  std::fflush(stdout);
  const bool is_live = site.in_virtual_time == nullptr;
  SweepRun sweep(std::move(plan), folder->get(), options.metric,
                 {.is_live = is_live,
                  .shares_folder = is_live && !options.site.has_coordinator,
                  .same_command = options.same_command});
  const absl::StatusOr<bool> is_complete = sweep.IsComplete();
  if (!is_complete.ok()) return PrintError(is_complete.status());
  if (*is_complete) return sweep.Run({});
  work.run = [&](const auto& runners) { return sweep.Run(runners); };
  work.stop = [&] { sweep.Stop(); };
  return RunAt(site, options.site, work, log_level, interrupt);
}

int RunSweepCommand(SweepOptions options, const Invocation& invocation) {
  if (options.out.empty()) {
    options.out = NewDirectoryIn("strata-sweeps");
    options.same_command = absl::StrCat("the same command with --out ", options.out);
  }
  options.compared.program.nodes = static_cast<uint32_t>(options.site.local.nodes);
  const auto job = LoadComparedJob(options.compared);
  if (!job.ok()) return PrintError(job.status());
  absl::StatusOr<compare::Metric> metric = MetricOf(options.compared, *job);
  if (!metric.ok()) return PrintError(metric.status());
  options.metric = *std::move(metric);
  compare::SweepRequest request{.job = *job,
                                .vary = options.vary,
                                .seeds = options.seeds,
                                .halving = options.halving,
                                .version = kVersion};
  absl::StatusOr<proto::Campaign> asked = compare::DescribeSweep(request);
  if (!asked.ok()) return PrintError(asked.status());
  absl::StatusOr<compare::SweepPlan> plan = compare::PlanSweep(*asked);
  if (!plan.ok()) return PrintError(plan.status());
  FillSlots(std::max(1U, LargestJob(*plan).ranks()), &options.site.local);
  std::optional<Interrupt> interrupt;
  if (options.site.has_coordinator || !options.site.cluster.empty()) interrupt.emplace();
  const absl::StatusOr<RunSite> site = OpenSite(options.site);
  if (!site.ok()) return PrintError(site.status());
  asked->set_cluster(site->words);
  if (auto status = CheckFit(FirstRuns(*plan), *site, "point"); !status.ok()) {
    return PrintError(status);
  }
  if (!interrupt.has_value()) {
    PrintEmptyNodes(LargestJob(*plan), options.site.local);
  }
  return RunSweep(options, *site, *asked, *std::move(plan), invocation.log_level,
                  interrupt.has_value() ? &*interrupt : nullptr);
}

}  // namespace

void AddSweepCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* command =
      app->add_subcommand("sweep", "Run a job with all choices of some fields' values");
  AddComparedJob(command, &options->compared);
  command
      ->add_option(
          "--vary", options->vary,
          "A field and its values, which are ranked in one mode (compare --tune finds each "
          "mode's best first): schedule.base_lr=0.01,0.1; may be repeated: all choices "
          "are run")
      ->allow_extra_args(false)
      ->required();
  command->add_option("--seeds", options->seeds, "Runs of each point: the job's seed, and the next")
      ->check(CLI::Range(1U, compare::kSeedsMax))
      ->capture_default_str();
  command
      ->add_option("--halving", options->halving,
                   "All points with few steps first, then the best 1/ETA with ETA times as many "
                   "(successive halving)")
      ->check(CLI::Range(2, 10));
  command->add_option("--out", options->out,
                      "Directory for runs and report, where a sweep that was interrupted goes on "
                      "(default: strata-sweeps/TIME)");
  command
      ->add_option("--at-once", options->at_once,
                   "Runs side by side, where the cluster has free slots for them")
      ->check(CLI::Range(1U, kAtOnceMax))
      ->capture_default_str()
      ->group(kMoreOptions);
  AddJobOptions(command, &options->compared.job);
  CLI::Option* coordinator = AddSiteOptions(command, &options->site);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata sweep job.textproto --vary schedule.base_lr=0.01,0.03,0.1 --nodes 2 --out sweep\n"
      "  strata sweep job.textproto --vary schedule.base_lr=0.003,0.01,0.03,0.1 --mode async \\\n"
      "      --halving 2 --seeds 3 --coordinator head:7070 --out sweep\n"
      "  strata sweep train.py -n 4 --vary program.args=--lr=0.01,--lr=0.1 --metric test_loss\n"
      "Without --coordinator and --cluster it has a cluster of its own on this machine. The same "
      "command\ngoes on where it was interrupted; of what is varied otherwise, runs that are there "
      "are used again.\n"
      "Exit status: 0 all runs are made, 1 stopped, cluster failed or no run of use, 2 bad input.");
  command->callback([=] {
    options->site.has_coordinator = NamesCluster(*coordinator, &options->site.coordinator.address);
    invocation->run = [=] { return RunSweepCommand(*options, *invocation); };
  });
}

}  // namespace strata::cli
