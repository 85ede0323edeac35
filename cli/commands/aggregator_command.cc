#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "common/process/environment.h"
#include "common/process/undumpable.h"
#include "worker/aggregator/aggregator.h"
#include "worker/contract/launch.h"

namespace strata::cli {
namespace {

int Run(const std::string& launch_file, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());
  auto launch = client::ReadLaunch(launch_file);
  if (!launch.ok()) return PrintError(launch.status());
  absl::Status status =
      StartLogging(invocation, absl::StrCat("aggregator of node ", launch->node()));
  if (!status.ok()) return PrintError(status);
  status = worker::RunAggregatorProcess(*launch);
  return status.ok() ? kExitOk : PrintError(std::string(status.message()), kExitFailed);
}

}  // namespace

// Started by the worker daemon only, so it is not in the help.
void AddAggregatorCommand(CLI::App* app, Invocation* invocation) {
  auto launch = std::make_shared<std::string>();
  CLI::App* command =
      app->add_subcommand("aggregator", "One job's aggregator on one node")->group("");
  command->add_option("--launch", *launch, "Launch file")->required();
  AddLogLevelOption(command, invocation);
  AddLogFormatOption(command);
  command->callback([=] { invocation->run = [=] { return Run(*launch, *invocation); }; });
}

}  // namespace strata::cli
