#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/options.h"
#include "common/process/stop_request.h"
#include "worker/agent/agent.h"

namespace strata::cli {
namespace {

int Run(worker::AgentOptions options, const Invocation& invocation) {
  if (options.name.empty()) options.name = DefaultDaemonName();
  absl::Status logging = StartLogging(invocation, absl::StrCat("worker ", options.name));
  if (!logging.ok()) return PrintError(logging);
  StopRequest request;
  auto agent = worker::Agent::Create(
      options, [&request](const absl::Status& status) { request.Raise(status); });
  if (!agent.ok()) return PrintError(agent.status());
  DaemonSteps steps;
  steps.start = [&] { return (*agent)->Start(); };
  steps.ready_line = [&] {
    return absl::StrCat("strata worker ready name=", options.name, " slots=", options.slots,
                        " runs=", options.runs_dir);
  };
  steps.stop = [&] { (*agent)->Stop(); };
  return RunDaemon(&request, steps);
}

}  // namespace

void AddWorkerCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<worker::AgentOptions>();
  options->address = HostName();
  options->slots = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* command = app->add_subcommand(
      "worker", "Run a worker node: per job one aggregator process and its ranks");
  AddCoordinatorAddress(command, &options->coordinator);
  AddSessionOptions(command, &options->connect_deadline, &options->reconnect_deadline);
  command->add_option("--slots", options->slots, "Ranks that may run here at once")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  command->add_option("--name", options->name, "Unique in the cluster (default: HOSTNAME-PID)");
  command
      ->add_option("--advertise", options->address, "Host that `strata nodes` shows for this node")
      ->capture_default_str();
  command->add_option("--runs", options->runs_dir, "Parent of the jobs' run directories")
      ->capture_default_str();
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata worker --coordinator 10.0.0.1:7070 --slots 4 --advertise 10.0.0.5");
  command->callback([=] { invocation->run = [=] { return Run(*options, *invocation); }; });
}

}  // namespace strata::cli
