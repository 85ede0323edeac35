#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/commands/comparison.h"
#include "cli/commands/run_site.h"
#include "cli/options/compared_job.h"
#include "cli/options/options.h"
#include "cli/options/within.h"
#include "cli/program/interrupt.h"
#include "cli/program/version.h"
#include "common/counted.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/sweep/grid.h"
#include "compare/sweep/tuning.h"

namespace strata::cli {
namespace {

struct Options {
  ComparedJob compared;
  std::string modes;
  std::vector<std::string> tune;
  uint32_t seeds = 3;
  std::string out;
  std::optional<double> target;
  compare::Metric metric;
  double equivalence_margin = 0.005;
  SiteOptions site;
};

// Of all that the directory is for, what this call asks for.
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

// Makes runs and report of what has been checked. `interrupt`: null for a cluster of its own.
int RunCampaign(const Options& options, const RunSite& site, const proto::Campaign& asked,
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
  const absl::StatusOr<std::string> steps = StepsText(parts.plans.front().job);
  if (!steps.ok()) return PrintError(steps.status());
  const absl::StatusOr<size_t> there = (*folder)->CountFinished(parts.plans);
  if (!there.ok()) return PrintError(there.status());
  std::printf("%s x %s: %s%s, %d of them there already; %s\n",
              Counted(asked.modes_size(), "mode").c_str(), Counted(asked.seeds(), "seed").c_str(),
              Counted(parts.plans.size(), "run").c_str(), steps->c_str(), static_cast<int>(*there),
              site.words.c_str());
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

// What is to be tuned, and the runs that it takes.
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

int Run(Options options, const Invocation& invocation) {
  options.compared.program.nodes = static_cast<uint32_t>(options.site.local.nodes);
  auto job = LoadComparedJob(options.compared);
  if (!job.ok()) return PrintError(job.status());
  absl::StatusOr<compare::Metric> metric = MetricOf(options.compared);
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
  return RunCampaign(options, *site, *asked, invocation.log_level,
                     interrupt.has_value() ? &*interrupt : nullptr);
}

}  // namespace

void AddCompareCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("compare", "Run a job in several modes with several seeds and compare");
  AddComparedJob(command, &options->compared);
  command
      ->add_option("--modes", options->modes,
                   "Modes with commas between them, each as --mode of strata submit takes it, with "
                   "+FIELD=VALUE for what else is its own; the first is the baseline")
      ->required();
  command->add_option("--seeds", options->seeds, "Runs of each mode: the job's seed, and the next")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--tune", options->tune,
                   "A field and its values: schedule.base_lr=0.01,0.1; may be repeated: every mode "
                   "tries all choices once, with a seed of their own, and runs with its best")
      ->allow_extra_args(false);
  command
      ->add_option("--out", options->out,
                   "Directory for runs and report; what it holds of them already is not made again")
      ->required();
  command->add_option(
      "--target,--target-accuracy", options->target,
      "The metric's value to which the time is told, of an accuracy 0 to 1 (default: "
      "what all modes reach)");
  command
      ->add_option("--margin", options->equivalence_margin,
                   "Final accuracies that differ by less are called equal: 0.005 is half a point; "
                   "of another metric a share of the baseline's")
      ->check(Within(0.0001, 0.9999))
      ->capture_default_str();
  AddJobChanges(command, &options->compared.job);
  CLI::Option* coordinator = AddSiteOptions(command, &options->site);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata compare job.textproto --modes sync,async,ring --nodes 2 --out comparison\n"
      "  strata compare job.textproto --modes \"sync,lazy:ssp(3),lazy:diloco(16)\" --seeds 5 \\\n"
      "      --nodes 4 --servers 2 --straggler node=1,slow=4x --out comparison\n"
      "  strata compare job.textproto --modes sync,delay1+push.codec=FP16 --out comparison \\\n"
      "      --coordinator head:7070\n"
      "  strata compare job.textproto --modes \"sync,lazy:diloco(16)\" --out comparison \\\n"
      "      --cluster examples/clusters/two_site_wan.textproto --set ranks=16\n"
      "  strata compare train.py -n 4 --modes sync,async,ring --nodes 2 --servers 2 \\\n"
      "      --metric perplexity --goal min --out comparison -- --layers 4\n"
      "  strata compare task.py -n 16 --modes sync,async --out comparison \\\n"
      "      --cluster examples/clusters/two_site_wan.textproto\n"
      "Without --coordinator it has a cluster of its own on this machine; with --cluster none: "
      "gradients\nare real, time is simulated. The same command goes on where it was interrupted; "
      "more modes and\nseeds add to what is there.\n"
      "Exit status: 0 all runs are made, 1 stopped, the cluster failed or no run is of use, 2 bad\n"
      "input.");
  command->callback([=] {
    options->site.has_coordinator = coordinator->count() > 0;
    invocation->run = [=] { return Run(*options, *invocation); };
  });
}

}  // namespace strata::cli
