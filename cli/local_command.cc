#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/child_starter.h"
#include "cli/cluster_life.h"
#include "cli/cluster_run.h"
#include "cli/command.h"
#include "cli/options.h"
#include "common/process/event_loop.h"

namespace strata::cli {
namespace {

struct Options {
  JobOptions job;
  int servers = 1;
  int shards = 1;  // per server
  int nodes = 1;
  int slots = 1;  // per node
  bool slots_given = false;
  std::string listen;
  std::string runs_dir;
  std::string state_dir;
};

// Servers are s0, s1, ..., workers w0, w1, ...
std::vector<PlannedDaemon> Plan(const Options& options) {
  std::vector<PlannedDaemon> plan;
  auto add = [&plan](DaemonRole role, const std::string& title, std::vector<std::string> args) {
    plan.push_back({role, {title, /*host=*/"", std::move(args)}});
  };
  add(DaemonRole::kCoordinator, "coordinator",
      {"coordinator", "--listen", options.listen, "--state", options.state_dir});
  for (int i = 0; i < options.servers; ++i) {
    const std::string name = absl::StrCat("s", i);
    add(DaemonRole::kServer, absl::StrCat("server ", name),
        {"server", "--name", name, "--shards", absl::StrCat(options.shards)});
  }
  for (int i = 0; i < options.nodes; ++i) {
    const std::string name = absl::StrCat("w", i);
    add(DaemonRole::kWorker, absl::StrCat("worker ", name),
        {"worker", "--name", name, "--slots", absl::StrCat(options.slots), "--runs",
         options.runs_dir});
  }
  return plan;
}

// With all options filled in.
int RunCluster(const Options& options, std::optional<proto::Job> job,
               const std::string& log_level) {
  ChildStarter::Options children;
  children.log_dir = options.runs_dir + "/daemons";
  children.log_level = log_level;
  for (const std::string& dir : {options.state_dir, options.runs_dir, children.log_dir}) {
    absl::Status status = MakeWritableDirectory(dir);
    if (!status.ok()) return PrintError(std::string(status.message()), kExitFailed);
  }
  EventLoop loop;
  ChildStarter starter(&loop, children);
  ClusterRun::Options run;
  run.cluster.plan = Plan(options);
  run.job = std::move(job);
  run.trace = options.job.trace;
  run.ready_line = [&](const std::string& coordinator) {
    return absl::StrCat("strata local ready coordinator=", coordinator,
                        " servers=", options.servers, " shards=", options.shards,
                        " nodes=", options.nodes, " slots=", options.slots,
                        " runs=", options.runs_dir);
  };
  return ClusterRun(&loop, &starter, std::move(run)).Run();
}

int Run(Options options, const Invocation& invocation) {
  auto loaded = LoadJobIfGiven(options.job);
  if (!loaded.ok()) return PrintError(loaded.status());
  std::optional<proto::Job> job = *std::move(loaded);
  if (job.has_value()) {
    absl::Status status = CheckServers(*job, options.servers);
    if (!status.ok()) return PrintError(status);
  }
  if (!options.slots_given) {
    int cores = static_cast<int>(std::thread::hardware_concurrency());
    int ranks = job.has_value() ? static_cast<int>(job->ranks()) : cores;
    options.slots = std::max(1, (ranks + options.nodes - 1) / options.nodes);
  }
  if (options.listen.empty()) options.listen = job.has_value() ? "127.0.0.1:0" : "127.0.0.1:7070";
  if (options.runs_dir.empty()) options.runs_dir = NewRunsDirectory();
  options.runs_dir = std::filesystem::absolute(options.runs_dir).lexically_normal();
  bool temporary = options.state_dir.empty();
  if (temporary) {
    char path[] = "/tmp/strata-local-XXXXXX";
    if (mkdtemp(path) == nullptr) return PrintError("cannot make a directory in /tmp", kExitFailed);
    options.state_dir = path;
  }
  int exit_status = RunCluster(options, std::move(job), invocation.log_level);
  std::error_code ignored;
  if (temporary) std::filesystem::remove_all(options.state_dir, ignored);
  return exit_status;
}

}  // namespace

void AddLocalCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "local", "Run a whole cluster on this machine; with --job run that job, then stop");
  command->add_option("--job", options->job.path, "Job to run; without one: run until Ctrl-C");
  AddJobOptions(command, &options->job);
  AddTraceOption(command, &options->job);
  command->add_option("--servers", options->servers, "Servers")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--shards", options->shards, "Shards per server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--nodes", options->nodes, "Worker nodes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  CLI::Option* slots =
      command
          ->add_option("--slots", options->slots,
                       "Ranks per node at once (default: what the job needs, else the cores)")
          ->check(CLI::Range(1, 1024));
  command->add_option("--listen", options->listen,
                      "HOST:PORT of the coordinator (default: 127.0.0.1:7070, with a job a free "
                      "port)");
  command->add_option("--runs", options->runs_dir,
                      "Parent of run directories and logs (default: strata-runs/TIME)");
  command->add_option("--state", options->state_dir,
                      "The coordinator's state (default: a temporary folder)");
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata local --nodes 2 --slots 2 --job examples/fashion_lenet_sync.textproto\n"
      "  strata local --servers 2 --nodes 2 --job job.textproto --mode async --set epochs=2\n"
      "  strata local --servers 2 --nodes 2 --slots 2\n"
      "Exit status with --job: 0 finished, 1 failed or stopped, 2 bad input.");
  command->callback([=] {
    options->slots_given = slots->count() > 0;
    invocation->run = [=] { return Run(*options, *invocation); };
  });
}

}  // namespace strata::cli
