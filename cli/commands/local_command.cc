#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/cluster/cluster_run.h"
#include "cli/cluster/local_cluster.h"
#include "cli/commands/cluster_page.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/web/web_service.h"

namespace strata::cli {
namespace {

struct LocalOptions {
  JobOptions job;
  LocalClusterOptions cluster;
  std::string resume;
  std::string web;  // where the page listens; empty: there is none
};

int RunLocal(LocalOptions options, const Invocation& invocation) {
  auto loaded = LoadJobIfGiven(options.job);
  if (!loaded.ok()) return PrintError(loaded.status());
  std::optional<proto::Job> job = *std::move(loaded);
  LocalClusterOptions& cluster = options.cluster;
  if (job.has_value()) {
    absl::Status status = CheckOwnCluster(*job, cluster);
    if (!status.ok()) return PrintError(status);
  }
  // Without a job: room for those of examples/, too.
  constexpr uint32_t kRanksOfExamples = 4;
  FillSlots(job.has_value() ? job->ranks()
                            : std::max(kRanksOfExamples, std::thread::hardware_concurrency()),
            &cluster);
  if (job.has_value()) PrintEmptyNodes(*job, cluster);
  if (cluster.listen.empty() && !job.has_value()) cluster.listen = DefaultCoordinator();
  ClusterRun::Options run;
  const absl::StatusOr<std::shared_ptr<WebService>> web =
      ShowInBrowser(options.web, "--web ", &run);
  if (!web.ok()) return PrintError(web.status());
  if (absl::Status made = ChooseRunsDirectory(&cluster); !made.ok()) return PrintError(made);
  run.job = std::move(job);
  run.resume = ToResumeFrom(options.resume);
  run.trace = options.job.trace;
  run.ready_line = [&cluster, &web](const std::string& coordinator) {
    return absl::StrCat(
        "strata local ready coordinator=", coordinator, " servers=", cluster.servers,
        " shards=", cluster.shards, " nodes=", cluster.nodes, " slots=", cluster.slots,
        " runs=", cluster.runs_dir, *web == nullptr ? "" : absl::StrCat(" web=", (*web)->url()));
  };
  return RunLocalCluster(cluster, std::move(run), invocation.log_level);
}

}  // namespace

void AddLocalCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<LocalOptions>();
  CLI::App* command = app->add_subcommand(
      "local", "Run a whole cluster on this machine; with --job run that job, then stop");
  CLI::Option* const job =
      command->add_option("--job", options->job.path, "Job to run; without one: run until Ctrl-C");
  AddResumeOption(command, &options->resume)->needs(job);
  AddJobOptions(command, &options->job);
  AddTraceOption(command, &options->job);
  LocalClusterOptions& cluster = options->cluster;
  AddLocalClusterOptions(command, &cluster);
  command->add_option("--listen", cluster.listen,
                      "HOST:PORT or unix:/PATH of the coordinator (default: this user's socket, "
                      "with a job one of its own)");
  command->add_option("--runs", cluster.runs_dir,
                      "Parent of run directories and logs (default: strata-runs/TIME)");
  command->add_option("--state", cluster.state_dir,
                      "The coordinator's state (default: a temporary folder)");
  command
      ->add_option("--web", options->web,
                   "Show the cluster in a browser, too; at HOST:PORT, if one is given")
      ->expected(0, 1)
      ->default_str(WebService::kListen);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata local --nodes 2 --slots 2 --job examples/fashion_lenet_sync.textproto\n"
      "  strata local --servers 2 --nodes 2 --job job.textproto --mode async --set epochs=2\n"
      "  strata local --servers 2 --nodes 2 --slots 2 --web\n"
      "Exit status with --job: 0 finished, 1 failed or stopped, 2 bad input.");
  command->callback([=] { invocation->run = [=] { return RunLocal(*options, *invocation); }; });
}

}  // namespace strata::cli
