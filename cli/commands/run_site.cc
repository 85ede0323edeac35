#include "cli/commands/run_site.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/options/invocation.h"
#include "common/buffer_pool.h"
#include "common/cores.h"
#include "compare/campaign/live_runner.h"
#include "compare/virtual_time/cluster_file.h"
#include "compare/virtual_time/virtual_run.h"

namespace strata::cli {
namespace {

using Runners = std::vector<std::unique_ptr<compare::LiveRunner>>;

// One each, as each follows one job at a time.
Runners LiveRunners(size_t count, const compare::LiveRunner::Options& options,
                    const control::CoordinatorClient::Options& client) {
  Runners runners;
  for (size_t i = 0; i < count; ++i) {
    runners.push_back(
        std::make_unique<compare::LiveRunner>(options, control::CoordinatorClient::Create(client)));
  }
  return runners;
}

std::vector<compare::Runner*> PointersTo(const Runners& runners) {
  std::vector<compare::Runner*> pointers;
  for (const auto& runner : runners) pointers.push_back(runner.get());
  return pointers;
}

int RunUntilSignal(const std::vector<compare::Runner*>& runners, const SiteWork& work,
                   Interrupt* interrupt) {
  interrupt->Catch(work.stop);
  const int exit_status = work.run(runners);
  interrupt->Catch(nullptr);
  return exit_status;
}

int RunOnCoordinator(const RunSite& site, const SiteOptions& options, const SiteWork& work,
                     Interrupt* interrupt) {
  control::CoordinatorClient::Options client = ClientOptions(options.coordinator);
  client.reports = true;
  const Runners runners = LiveRunners(work.runners, {.cluster = site.words}, client);
  return RunUntilSignal(PointersTo(runners), work, interrupt);
}

int RunOnOwnCluster(const RunSite& site, const SiteOptions& options, const SiteWork& work,
                    const std::string& log_level) {
  LocalClusterOptions local = options.local;
  local.runs_dir = work.jobs_dir;
  ClusterRun::Options run;
  run.work = {.run =
                  [&](const std::string& coordinator) {
                    const Runners runners = LiveRunners(
                        work.runners,
                        {.cluster = site.words, .jobs_dir = work.jobs_dir, .cancels = false},
                        {.coordinator = coordinator, .reports = true});
                    return work.run(PointersTo(runners));
                  },
              .stop = work.stop};
  return RunLocalCluster(std::move(local), std::move(run), log_level);
}

}  // namespace

CLI::Option* AddSiteOptions(CLI::App* command, SiteOptions* options) {
  std::vector<CLI::Option*> local = AddLocalClusterOptions(command, &options->local);
  for (const char* gpus : {"--device-plugin", "--gpus", "--ranks-per-gpu"}) {
    local.push_back(command->get_option(gpus));
  }
  AddCoordinatorOptions(command, &options->coordinator);
  CLI::Option* coordinator = command->get_option("--coordinator");
  coordinator->description(
      "HOST:PORT or unix:/PATH of the coordinator (default: $STRATA_COORDINATOR, where no option "
      "of "
      "an own cluster is given; else a cluster of this command's own); of several of which one "
      "leads HOST:PORT,HOST:PORT");
  for (CLI::Option* option : local) coordinator->excludes(option);
  for (const char* option : {"--timeout", "--keys", "--insecure"}) {
    command->get_option(option)->needs(coordinator);
  }
  CLI::Option* cluster = command->add_option("--cluster", options->cluster,
                                             "Run in virtual time on the cluster of this file "
                                             "(examples/clusters/): a model of the zoo, or "
                                             "a script with a strata.Task");
  for (const char* option : {"--device-plugin", "--gpus", "--ranks-per-gpu", "--shards", "--slots",
                             "--keys", "--insecure", "--timeout"}) {
    command->get_option(option)->group(kMoreOptions);
  }
  cluster->excludes(coordinator);
  for (CLI::Option* option : local) cluster->excludes(option);
  return coordinator;
}

absl::StatusOr<RunSite> OpenSite(const SiteOptions& options) {
  RunSite site;
  if (!options.cluster.empty()) {
    auto cluster = compare::ReadCluster(options.cluster);
    if (!cluster.ok()) return cluster.status();
    site.words = compare::DescribeCluster(*cluster);
    site.in_virtual_time = compare::CreateVirtualRunner(*std::move(cluster), UsableCores());
    return site;
  }
  if (!options.has_coordinator) {
    const LocalClusterOptions& local = options.local;
    const auto gpus = GpusOfNodes(local);
    if (!gpus.ok()) return gpus.status();
    site.size.slots.assign(local.nodes, local.slots);
    for (const NodeGpus& node : *gpus) site.size.gpu_slots.push_back(node.slots);
    site.size.servers = local.servers;
    site.size.shards = local.servers * local.shards;
    site.words = absl::StrCat("on ", HostName(), ": ", compare::Words(site.size));
    return site;
  }
  const auto nodes = ConnectTo(options.coordinator)->ListNodes();
  if (!nodes.ok()) return nodes.status();
  site.size = compare::MeasureCluster(*nodes);
  site.words =
      absl::StrCat("cluster of ", options.coordinator.address, ": ", compare::Words(site.size));
  return site;
}

absl::Status CheckFit(const std::vector<compare::RunPlan>& plans, const RunSite& site,
                      const std::string& what) {
  for (const compare::RunPlan& plan : plans) {
    const absl::Status status = site.in_virtual_time != nullptr
                                    ? site.in_virtual_time->Check(plan)
                                    : compare::CheckFits(plan.job, site.size);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " ", plan.mode, ": ", status.message()));
  }
  return absl::OkStatus();
}

size_t RunsAtOnce(const std::vector<compare::RunPlan>& plans, const RunSite& site, size_t at_most) {
  size_t runs = std::min(at_most, plans.size());
  if (site.in_virtual_time != nullptr) runs = 1;
  for (const compare::RunPlan& plan : plans) {
    if (runs <= 1) break;
    runs = std::min(runs, compare::JobsAtOnce(plan.job, site.size));
  }
  return std::max<size_t>(1, runs);
}

int RunAt(const RunSite& site, const SiteOptions& options, const SiteWork& work,
          const std::string& log_level, Interrupt* interrupt) {
  if (site.in_virtual_time != nullptr) {
    TuneAllocator();
    return RunUntilSignal({site.in_virtual_time.get()}, work, interrupt);
  }
  return interrupt != nullptr ? RunOnCoordinator(site, options, work, interrupt)
                              : RunOnOwnCluster(site, options, work, log_level);
}

}  // namespace strata::cli
