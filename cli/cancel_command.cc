#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options.h"

namespace strata::cli {
namespace {

struct Options {
  CoordinatorOptions coordinator;
  std::string job;
};

int Run(const Options& options) {
  auto client = ConnectTo(options.coordinator);
  auto id = FindJob(*client, options.job);
  if (!id.ok()) return PrintError(id.status());
  absl::Status status = client->Cancel(*id);
  if (!status.ok()) return PrintError(status);
  std::printf("job %u is being cancelled\n", id->value());
  return kExitOk;
}

}  // namespace

void AddCancelCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand("cancel", "Cancel a queued or running job");
  command->add_option("job", options->job, "The job's number, or its name (the newest one)")
      ->required();
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata cancel 3\n"
      "  strata cancel fashion-lenet-sync");
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
