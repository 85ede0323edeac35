#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/cluster/follow.h"
#include "cli/commands/commands.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/render.h"
#include "cli/render/render_daemons.h"

namespace strata::cli {

namespace {

struct StatusOptions {
  CoordinatorOptions coordinator;
  std::string job;
  bool follow = false;
};

int RunCluster(control::CoordinatorClient& client, bool json) {
  auto nodes = client.ListNodes();
  if (!nodes.ok()) return PrintError(nodes.status());
  auto jobs = client.ListJobs();
  if (!jobs.ok()) return PrintError(jobs.status());
  json ? PrintJson(stdout, ClusterJson(*nodes, *jobs))
       : PrintText(stdout, ClusterText(*nodes, *jobs));
  return kExitOk;
}

int RunStatus(const StatusOptions& options) {
  std::optional<Interrupt> interrupt;
  if (options.follow) interrupt.emplace();
  auto client = ConnectTo(options.coordinator);
  if (options.job.empty()) return RunCluster(*client, options.coordinator.json);
  auto id = FindJob(*client, options.job);
  if (!id.ok()) return PrintError(id.status());
  auto job = client->GetJob(*id);
  if (!job.ok()) return PrintError(job.status());
  if (options.follow) {
    return FollowJobUntilSignal(client.get(), *id, options.coordinator, &*interrupt);
  }
  if (options.coordinator.json) {
    PrintJson(stdout, JobJson(*job));
    return kExitOk;
  }
  auto nodes = client->ListNodes();
  if (!nodes.ok()) return PrintError(nodes.status());
  PrintText(stdout, JobText(*job) + RefusalsText(*nodes, *job));
  return kExitOk;
}

}  // namespace

void AddStatusCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* command = app->add_subcommand(
      "status", "Show where and how far a job is, its mode and its shards; or the whole cluster");
  CLI::Option* job =
      command->add_option("job", options->job, "The job's number, or its name (the newest one)");
  command
      ->add_flag("--follow", options->follow,
                 "Show progress until the job ends; the exit status is the job's")
      ->needs(job);
  AddCoordinatorOptions(command, &options->coordinator);
  AddJsonOption(command, &options->coordinator.json);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata status\n"
      "  strata status 3\n"
      "  strata status 3 --follow\n"
      "  strata status fashion-lenet-sync --json\n"
      "Exit status with --follow: 0 finished, 1 failed or cancelled, 2 no such job,\n"
      "130 and 143 interrupted by Ctrl-C and SIGTERM: the job goes on.");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunStatus(*options); });
    };
  });
}

namespace {

int RunJobs(const CoordinatorOptions& options) {
  auto client = ConnectTo(options);
  auto jobs = client->ListJobs();
  if (!jobs.ok()) return PrintError(jobs.status());
  options.json ? PrintJson(stdout, JobsJson(*jobs)) : PrintText(stdout, JobsText(*jobs));
  return kExitOk;
}

}  // namespace

void AddJobsCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<CoordinatorOptions>();
  CLI::App* command = app->add_subcommand("jobs", "List the jobs of a cluster, newest last");
  AddCoordinatorOptions(command, options.get());
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata jobs\n"
      "  strata jobs --coordinator 10.0.0.1:7070 --json");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(options.get(), ClusterChoice::kAny, [&] { return RunJobs(*options); });
    };
  });
}

namespace {

int RunNodes(const CoordinatorOptions& options) {
  auto client = ConnectTo(options);
  auto nodes = client->ListNodes();
  if (!nodes.ok()) return PrintError(nodes.status());
  options.json ? PrintJson(stdout, NodesJson(*nodes)) : PrintText(stdout, NodesText(*nodes));
  return kExitOk;
}

}  // namespace

void AddNodesCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<CoordinatorOptions>();
  CLI::App* command = app->add_subcommand("nodes", "List the servers and workers of a cluster");
  AddCoordinatorOptions(command, options.get());
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata nodes\n"
      "  strata nodes --json");
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(options.get(), ClusterChoice::kAny, [&] { return RunNodes(*options); });
    };
  });
}

}  // namespace strata::cli
