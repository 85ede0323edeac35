#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
#include "compare/campaign/sweep_plan.h"
#include "compare/campaign/tuning.h"
#include "compare/report/report.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::cli {
namespace {

// The runs of `strata compare`, shown on standard output, and the report. It knows the cluster as a
// runner alone.
//
// Threads: Run and WriteReport one's; Stop any.
class Comparison {
 public:
  struct Options {
    std::vector<compare::RunPlan> plans;  // in the order in which they are made
    // In place of `plans`: a campaign with points to tune, whose runs follow from that.
    std::optional<proto::Campaign> to_tune;
    compare::CampaignFolder* folder = nullptr;
    std::vector<std::string> modes;  // the first is the baseline; of `to_tune` those tuned
    std::optional<double> target_accuracy;
    double equivalence_margin = 0;
    compare::Metric metric;
    std::string same_command = "the same command";  // that continues with existing runs
  };

  explicit Comparison(Options options);

  // Makes missing runs, then the report; if none is missing, `runner` may be null. Returns the exit
  // status, after it has printed what is wrong and how to continue.
  int Run(compare::Runner* runner);
  // Run ends soon, also one that begins later; the runs that are made stay.
  void Stop() { course_.Stop(); }

  // Returns whether no run is missing. Errors as of CampaignFolder::Load.
  absl::StatusOr<bool> IsComplete() const;

 private:
  absl::StatusOr<std::vector<proto::RunRecord>> Make(const std::vector<compare::RunPlan>& plans,
                                                     compare::Runner* runner,
                                                     const ShownCourse::OnRun& on_run = nullptr);
  compare::ReportInput InputOf(std::vector<std::string> modes,
                               std::vector<proto::RunRecord> records) const;
  // Writes the report of the runs that are there, which says how long the others take.
  void ReportSoFar(const compare::CourseProgress& progress);
  // Tunes; plans and modes are known then.
  absl::Status Tune(compare::Runner* runner);
  int Report(std::vector<proto::RunRecord> records);
  int PrintStopped(const absl::Status& why);

  Options options_;
  std::string tuning_;  // in words
  size_t runs_ = 0;
  bool has_page_ = false;  // and has said where
  ShownCourse course_;
};

Comparison::Comparison(Options options) : options_(std::move(options)), course_(options_.metric) {}

int Comparison::Run(compare::Runner* runner) {
  if (options_.to_tune) {
    const absl::Status status = Tune(runner);
    if (!status.ok()) return PrintStopped(status);
  }
  auto records =
      Make(options_.plans, runner, [this](const auto& progress) { ReportSoFar(progress); });
  if (records.ok()) return Report(*std::move(records));
  return PrintStopped(records.status());
}

absl::StatusOr<std::vector<proto::RunRecord>> Comparison::Make(
    const std::vector<compare::RunPlan>& plans, compare::Runner* runner,
    const ShownCourse::OnRun& on_run) {
  std::vector<compare::Runner*> runners;
  if (runner != nullptr) runners.push_back(runner);
  runs_ += plans.size();
  return course_.Make(plans, options_.folder, runners, on_run);
}

absl::Status Comparison::Tune(compare::Runner* runner) {
  const auto runs = compare::TuningRuns(*options_.to_tune);
  if (!runs.ok()) return runs.status();
  PrintF(stdout, "tuning: %s\n", Counted(runs->size(), "run"));
  std::fflush(stdout);
  const auto records = Make(*runs, runner);
  if (!records.ok()) return records.status();
  std::vector<proto::RunRecord> seen;
  for (const proto::RunRecord& record : *records) {
    seen.push_back(compare::ByMetric(options_.metric, record));
  }
  if (const std::string why = compare::WhyNoneIsOfUse(seen); !why.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no run that tunes is of use: ", why));
  }
  const compare::Tuned tuned = compare::TunedBy(*options_.to_tune, *records, options_.metric);
  tuning_ = tuned.words;
  PrintF(stdout, "%s\n", tuning_);
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
      absl::StrFormat("%s; %d of %d runs are in %s, %s goes on with the others", why.message(),
                      course_.done(), runs_, options_.folder->dir(), options_.same_command),
      kExitFailed);
}

compare::ReportInput Comparison::InputOf(std::vector<std::string> modes,
                                         std::vector<proto::RunRecord> records) const {
  compare::ReportInput input;
  const proto::Job& job = options_.folder->campaign().job();
  input.title = job.name();
  input.modes = std::move(modes);
  for (proto::RunRecord& record : records) {
    input.runs.push_back(compare::ByMetric(options_.metric, std::move(record)));
  }
  input.straggler = StragglerWords(job);
  input.tuning = tuning_;
  input.target_accuracy = options_.target_accuracy;
  input.equivalence_margin = options_.equivalence_margin;
  input.metric = options_.metric;
  return input;
}

void Comparison::ReportSoFar(const compare::CourseProgress& progress) {
  if (progress.made == progress.to_make) return;  // the whole one follows
  std::vector<std::string> modes;
  std::vector<proto::RunRecord> records;
  for (const std::string& mode : options_.modes) {
    const size_t before = records.size();
    for (const compare::RunPlan& plan : options_.plans) {
      if (plan.mode != mode) continue;
      auto record = options_.folder->Load(plan);
      if (record.ok() && record->has_value()) records.push_back(**std::move(record));
    }
    if (records.size() > before) modes.push_back(mode);
  }
  if (modes.empty() || modes.front() != options_.modes.front()) return;  // no baseline yet
  compare::ReportInput input = InputOf(std::move(modes), std::move(records));
  const std::optional<double> left_s = SecondsLeft(progress);
  input.under_way =
      absl::StrCat(progress.runs - progress.to_make + progress.made, " of ", progress.runs,
                   " runs are made", left_s ? ", about " + FormatDuration(*left_s) + " left" : "");
  const std::string& dir = options_.folder->dir();
  const absl::Status written = compare::WriteReport(input, dir);
  // The report at the end fails with the same words.
  if (!written.ok() || has_page_) return;
  has_page_ = true;
  std::printf("report, renewed after each run: %s/report/index.html\n", dir.c_str());
  std::fflush(stdout);
}

int Comparison::Report(std::vector<proto::RunRecord> records) {
  const compare::ReportInput input = InputOf(options_.modes, std::move(records));
  const absl::StatusOr<compare::Summary> summary = compare::Summarize(input);
  if (!summary.ok()) return PrintError(summary.status());
  PrintText(stdout, absl::StrCat("\n", Table(summary->rows), "\n"));
  for (const std::string& line : summary->verdict) PrintF(stdout, "%s\n", line);
  const std::string& dir = options_.folder->dir();
  const absl::Status written = compare::WriteReport(input, dir);
  if (!written.ok()) return PrintError(std::string(written.message()), kExitFailed);
  PrintF(stdout, "\nreport: %s/report/index.html\nfigures: %s/report.json\n", dir, dir);
  std::fflush(stdout);
  const std::string why = compare::WhyNoneIsOfUse(input.runs);
  return why.empty() ? kExitOk : PrintError(absl::StrCat("no run is of use: ", why), kExitFailed);
}

struct CompareOptions {
  ComparedJob compared;
  std::string modes;
  bool names_modes = false;  // else DefaultModes
  std::vector<std::string> tune;
  uint32_t seeds = 3;
  std::string out;  // empty: one by the time
  std::string same_command = "the same command";
  std::optional<double> target;
  compare::Metric metric;
  double equivalence_margin = 0.005;
  SiteOptions site;
};

// Returns the runs that this call asks for, of all that the folder is for.
std::vector<compare::RunPlan> AskedFor(const proto::Campaign& asked,
                                       std::vector<compare::RunPlan> plans) {
  const auto is_other = [&asked](const compare::RunPlan& plan) {
    const bool mode =
        std::find(asked.modes().begin(), asked.modes().end(), plan.mode) != asked.modes().end();
    return !mode || plan.job.seed() >= asked.job().seed() + asked.seeds();
  };
  plans.erase(std::remove_if(plans.begin(), plans.end(), is_other), plans.end());
  return plans;
}

// " of 300 steps"; empty: the program alone knows.
absl::StatusOr<std::string> StepsText(const proto::Job& job) {
  if (job.has_program()) return std::string();
  const absl::StatusOr<uint64_t> steps = compare::TotalSteps(job);
  if (!steps.ok()) return steps.status();
  return absl::StrCat(" of ", Counted(*steps, "step"));
}

// Makes runs and report of the checked options. `interrupt`: null for a cluster of its own.
int RunCampaign(const CompareOptions& options, const RunSite& site, const proto::Campaign& asked,
                const std::string& log_level, Interrupt* interrupt) {
  const std::string out = std::filesystem::absolute(options.out).lexically_normal();
  const auto folder = compare::CampaignFolder::Open(out, asked);
  if (!folder.ok()) return PrintError(folder.status());
  const auto all = compare::PlanRuns((*folder)->campaign());
  if (!all.ok()) return PrintError(all.status());
  if (auto status = (*folder)->Begin(); !status.ok()) return PrintError(status);
  Comparison::Options parts;
  parts.plans = AskedFor(asked, *all);
  parts.folder = folder->get();
  parts.modes = {asked.modes().begin(), asked.modes().end()};
  parts.target_accuracy = options.target;
  parts.metric = options.metric;
  parts.equivalence_margin = options.equivalence_margin;
  parts.same_command = options.same_command;
  const absl::StatusOr<std::string> steps = StepsText(parts.plans.front().job);
  if (!steps.ok()) return PrintError(steps.status());
  const absl::StatusOr<size_t> there = (*folder)->CountFinished(parts.plans);
  if (!there.ok()) return PrintError(there.status());
  PrintF(stdout, "%s x %s: %s%s, %d of them there already; %s\n",
         Counted(asked.modes_size(), "mode"), Counted(asked.seeds(), "seed"),
         Counted(parts.plans.size(), "run"), steps->c_str(), static_cast<int>(*there), site.words);
  std::fflush(stdout);
  if (asked.tune_size() > 0) {
    parts.to_tune = asked;
    parts.to_tune->set_measured_round((*folder)->campaign().measured_round());
  }
  Comparison comparison(std::move(parts));
  const absl::StatusOr<bool> is_complete = comparison.IsComplete();
  if (!is_complete.ok()) return PrintError(is_complete.status());
  if (*is_complete) return comparison.Run(/*runner=*/nullptr);
  SiteWork work;
  work.run = [&](const auto& runners) { return comparison.Run(runners.front()); };
  work.stop = [&] { comparison.Stop(); };
  work.jobs_dir = (*folder)->jobs_dir();
  return RunAt(site, options.site, work, log_level, interrupt);
}

// Adds the fields to tune, and the runs that this takes.
absl::Status AddTuning(const std::vector<std::string>& tune, proto::Campaign* campaign,
                       std::vector<compare::RunPlan>* plans) {
  if (tune.empty()) return absl::OkStatus();
  const auto variations = compare::ParseVariations(tune);
  if (!variations.ok()) return variations.status();
  for (const proto::Variation& variation : *variations) *campaign->add_tune() = variation;
  const auto runs = compare::TuningRuns(*campaign);
  if (!runs.ok()) return runs.status();
  plans->insert(plans->end(), runs->begin(), runs->end());
  return absl::OkStatus();
}

// Returns the default modes that the job can have there, and prints why others are left out.
// Errors: InvalidArgument: not even the first can be had.
absl::StatusOr<std::string> DefaultModes(const proto::Job& job, const RunSite& site) {
  std::vector<std::string> modes;
  for (const char* mode : {"sync", "ssp(2)", "async", "ring"}) {
    const auto campaign = compare::PlanCampaign({.job = job, .modes = mode});
    absl::Status status = campaign.status();
    if (status.ok()) {
      const auto plans = compare::PlanRuns(*campaign);
      status = plans.ok() ? CheckFit(*plans, site, "mode") : plans.status();
    }
    if (status.ok()) {
      modes.push_back(mode);
    } else if (modes.empty()) {
      return status;
    } else {
      std::printf("left out: %s\n", std::string(status.message()).c_str());
    }
  }
  return absl::StrJoin(modes, ",");
}

int RunCompare(CompareOptions options, const Invocation& invocation) {
  if (options.out.empty()) {
    options.out = NewDirectoryIn("strata-comparisons");
    options.same_command = absl::StrCat("the same command with --out ", options.out);
  }
  options.compared.program.nodes = static_cast<uint32_t>(options.site.local.nodes);
  auto job = LoadComparedJob(options.compared);
  if (!job.ok()) return PrintError(job.status());
  absl::StatusOr<compare::Metric> metric = MetricOf(options.compared, *job);
  if (!metric.ok()) return PrintError(metric.status());
  if (metric->is_accuracy() && options.target && !(*options.target > 0 && *options.target <= 1)) {
    return PrintError(absl::InvalidArgumentError("--target: an accuracy is above 0 and at most 1"));
  }
  options.metric = *std::move(metric);
  // Tuning has the seed before.
  if (!options.tune.empty() && job->seed() == 0) job->set_seed(2);
  FillSlots(std::max(1U, job->ranks()), &options.site.local);
  std::optional<Interrupt> interrupt;
  if (options.site.has_coordinator || !options.site.cluster.empty()) interrupt.emplace();
  const absl::StatusOr<RunSite> site = OpenSite(options.site);
  if (!site.ok()) return PrintError(site.status());
  if (!options.names_modes) {
    absl::StatusOr<std::string> modes = DefaultModes(*job, *site);
    if (!modes.ok()) return PrintError(modes.status());
    options.modes = *std::move(modes);
  }
  auto asked = compare::PlanCampaign({.job = *job,
                                      .modes = options.modes,
                                      .seeds = options.seeds,
                                      .cluster = site->words,
                                      .version = kVersion});
  if (!asked.ok()) return PrintError(asked.status());
  auto plans = compare::PlanRuns(*asked);
  if (!plans.ok()) return PrintError(plans.status());
  if (auto status = AddTuning(options.tune, &*asked, &*plans); !status.ok()) {
    return PrintError(status);
  }
  if (auto status = CheckFit(*plans, *site, "mode"); !status.ok()) return PrintError(status);
  if (!interrupt.has_value()) PrintEmptyNodes(plans->front().job, options.site.local);
  return RunCampaign(options, *site, *asked, invocation.log_level,
                     interrupt.has_value() ? &*interrupt : nullptr);
}

}  // namespace

void AddCompareCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app->add_subcommand("compare", "Run a job in several modes with several seeds and compare");
  AddComparedJob(command, &options->compared);
  command->add_option(
      "--modes", options->modes,
      "Modes with commas between, as --mode of strata submit takes them, each with "
      "+FIELD=VALUE for what is its own; the first is the baseline (default: those of "
      "sync,ssp(2),async,ring that the job can have)");
  command->add_option("--seeds", options->seeds, "Runs of each mode: the job's seed, and the next")
      ->check(CLI::Range(1U, compare::kSeedsMax))
      ->capture_default_str();
  command
      ->add_option("--tune", options->tune,
                   "A field and its values, of which each mode first finds its own best and is "
                   "compared with that (sweep --vary ranks them in one mode): "
                   "schedule.base_lr=0.01,0.1; may be repeated: all choices are tried")
      ->allow_extra_args(false);
  command->add_option(
      "--out", options->out,
      "Directory for runs and report, where a comparison that was interrupted goes on "
      "(default: strata-comparisons/TIME)");
  command
      ->add_option("--target,--target-accuracy", options->target,
                   "The metric's value to which the time is told, of an accuracy 0 to 1 (default: "
                   "what all modes reach)")
      ->group(kMoreOptions);
  command
      ->add_option("--margin", options->equivalence_margin,
                   "Final accuracies that differ by less are called equal: 0.005 is half a point; "
                   "of another metric a share of the baseline's")
      ->check(Within(0.0001, 0.9999))
      ->capture_default_str()
      ->group(kMoreOptions);
  AddJobChanges(command, &options->compared.job);
  CLI::Option* coordinator = AddSiteOptions(command, &options->site);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata compare job.textproto --nodes 2\n"
      "  strata compare job.textproto --modes \"sync,ssp(3),diloco(16),delay1+push.codec=FP16\" "
      "\\\n"
      "      --nodes 4 --servers 2 --straggler node=1,slow=4x --out comparison\n"
      "  strata compare job.textproto --modes \"sync,lazy:diloco(16)\" --out comparison \\\n"
      "      --cluster examples/clusters/two_site_wan.textproto --set ranks=16\n"
      "  strata compare train.py -n 4 --nodes 2 --metric perplexity --goal min -- --layers 4\n"
      "Without --coordinator and --cluster it has a cluster of its own on this machine. The same "
      "command\ngoes on where it was interrupted; more modes and seeds add to what is there.\n"
      "Exit status: 0 all runs are made, 1 stopped, cluster failed or no run of use, 2 "
      "bad input.");
  command->callback([=] {
    options->site.has_coordinator = NamesCluster(*coordinator, &options->site.coordinator.address);
    options->names_modes = command->count("--modes") > 0;
    invocation->run = [=] { return RunCompare(*options, *invocation); };
  });
}

}  // namespace strata::cli
