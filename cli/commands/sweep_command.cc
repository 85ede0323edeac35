#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/run_site.h"
#include "cli/commands/sweep_run.h"
#include "cli/options/compared_job.h"
#include "cli/options/options.h"
#include "cli/program/interrupt.h"
#include "cli/program/version.h"
#include "common/counted.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/sweep/sweep_plan.h"

namespace strata::cli {
namespace {

// A thread and two connections each; more would rather measure this process.
constexpr uint32_t kAtOnceMax = 64;

struct Options {
  ComparedJob compared;
  compare::Metric metric;
  std::vector<std::string> vary;
  uint32_t seeds = 1;
  uint32_t halving = 0;
  uint32_t at_once = kAtOnceMax;
  std::string out;
  SiteOptions site;
};

// The most ranks of a point.
uint32_t RanksOf(const compare::SweepPlan& plan) {
  uint32_t ranks = 1;
  for (const compare::SweepPoint& point : plan.points) {
    ranks = std::max(ranks, point.plan.job.ranks());
  }
  return ranks;
}

// Of the first rung, which has all points.
std::vector<compare::RunPlan> FirstRuns(const compare::SweepPlan& plan) {
  std::vector<size_t> points(plan.points.size());
  std::iota(points.begin(), points.end(), size_t{0});
  return compare::RunsOfRung(plan, plan.rungs.front(), points);
}

// Makes runs and report of what has been checked. `interrupt`: null for a cluster of its own.
int RunSweep(const Options& options, const RunSite& site, const proto::Campaign& asked,
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
  std::printf("%s x %s in %s, %d runs of the first there already, %d at once; %s\n",
              Counted(plan.points.size(), "point").c_str(), Counted(plan.seeds, "seed").c_str(),
              Counted(plan.rungs.size(), "rung").c_str(), static_cast<int>(*there),
              static_cast<int>(work.runners), site.words.c_str());
  std::fflush(stdout);
  const bool is_live = site.in_virtual_time == nullptr;
  SweepRun sweep(std::move(plan), folder->get(), options.metric,
                 {.is_live = is_live, .shares_folder = is_live && !options.site.has_coordinator});
  const absl::StatusOr<bool> is_complete = sweep.IsComplete();
  if (!is_complete.ok()) return PrintError(is_complete.status());
  if (*is_complete) return sweep.Run({});
  work.run = [&](const auto& runners) { return sweep.Run(runners); };
  work.stop = [&] { sweep.Stop(); };
  return RunAt(site, options.site, work, log_level, interrupt);
}

int Run(Options options, const Invocation& invocation) {
  options.compared.program.nodes = static_cast<uint32_t>(options.site.local.nodes);
  const auto job = LoadComparedJob(options.compared);
  if (!job.ok()) return PrintError(job.status());
  absl::StatusOr<compare::Metric> metric = MetricOf(options.compared);
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
  FillSlots(RanksOf(*plan), &options.site.local);
  std::optional<Interrupt> interrupt;
  if (options.site.has_coordinator || !options.site.cluster.empty()) interrupt.emplace();
  const absl::StatusOr<RunSite> site = OpenSite(options.site);
  if (!site.ok()) return PrintError(site.status());
  asked->set_cluster(site->words);
  if (auto status = CheckFit(FirstRuns(*plan), *site, "point"); !status.ok()) {
    return PrintError(status);
  }
  return RunSweep(options, *site, *asked, *std::move(plan), invocation.log_level,
                  interrupt.has_value() ? &*interrupt : nullptr);
}

}  // namespace

void AddSweepCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("sweep", "Run a job with all choices of some fields' values");
  AddComparedJob(command, &options->compared);
  command
      ->add_option("--vary", options->vary,
                   "A field and its values: schedule.base_lr=0.01,0.03,0.1; may be repeated: all "
                   "choices are run")
      ->allow_extra_args(false)
      ->required();
  command->add_option("--seeds", options->seeds, "Runs of each point: the job's seed, and the next")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--halving", options->halving,
                   "Successive halving: all points with few steps first, then the best 1/ETA with "
                   "ETA times as many, until one or some have all; runs go on from checkpoints "
                   "where they can")
      ->check(CLI::Range(2, 10));
  command
      ->add_option("--out", options->out,
                   "Directory for runs and report; what it holds of them already is not made again")
      ->required();
  command
      ->add_option("--at-once", options->at_once,
                   "Runs side by side, where the cluster has free slots for them")
      ->check(CLI::Range(1U, kAtOnceMax))
      ->capture_default_str();
  AddJobOptions(command, &options->compared.job);
  CLI::Option* coordinator = AddSiteOptions(command, &options->site);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata sweep job.textproto --vary schedule.base_lr=0.01,0.03,0.1 \\\n"
      "      --vary data.batch_per_rank=16,64 --nodes 2 --slots 4 --out sweep\n"
      "  strata sweep job.textproto --vary schedule.base_lr=0.003,0.01,0.03,0.1 --mode async \\\n"
      "      --halving 2 --seeds 3 --coordinator head:7070 --out sweep\n"
      "  strata sweep train.py -n 4 --vary program.args=--lr=0.01,--lr=0.1 --metric test_loss \\\n"
      "      --nodes 2 --out sweep\n"
      "Without --coordinator it has a cluster of its own on this machine; with --cluster none: "
      "gradients\nare real, time is simulated. The same command goes on where it was interrupted; "
      "what is varied may\nchange, runs that are there are used again.\n"
      "Exit status: 0 all runs are made, 1 stopped or the cluster failed, 2 bad input.");
  command->callback([=] {
    options->site.has_coordinator = coordinator->count() > 0;
    invocation->run = [=] { return Run(*options, *invocation); };
  });
}

}  // namespace strata::cli
