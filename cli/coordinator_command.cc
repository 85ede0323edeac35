#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/options.h"
#include "common/process/stop_request.h"
#include "server/coordinator/coordinator.h"

namespace strata::cli {
namespace {

int Run(const server::Coordinator::Options& options, const Invocation& invocation) {
  absl::Status logging = StartLogging(invocation, "coordinator");
  if (!logging.ok()) return PrintError(logging);
  StopRequest request;
  auto coordinator = server::Coordinator::Create(options);
  if (!coordinator.ok()) return PrintError(coordinator.status());
  DaemonSteps steps;
  steps.start = [&] { return (*coordinator)->Start(); };
  steps.ready_line = [&] {
    std::string host = options.listen.substr(0, options.listen.rfind(':'));
    return absl::StrCat("strata coordinator ready address=", host, ":", (*coordinator)->port(),
                        " state=", options.state_dir);
  };
  steps.stop = [&] { (*coordinator)->Stop(); };
  return RunDaemon(&request, steps);
}

}  // namespace

void AddCoordinatorCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<server::Coordinator::Options>();
  CLI::App* command = app->add_subcommand(
      "coordinator", "Run the coordinator: membership, placement and jobs of a cluster");
  command->add_option("--listen", options->listen, "HOST:PORT to listen on; port 0: a free one")
      ->capture_default_str();
  command
      ->add_option("--state", options->state_dir,
                   "Folder of the durable state; a restart goes on from it")
      ->capture_default_str();
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata coordinator\n"
      "  strata coordinator --listen 10.0.0.1:7070 --state /var/lib/strata");
  command->callback([=] { invocation->run = [=] { return Run(*options, *invocation); }; });
}

}  // namespace strata::cli
