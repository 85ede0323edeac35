#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/render/render.h"

namespace strata::cli {
namespace {

int Run(const CoordinatorOptions& options) {
  auto client = ConnectTo(options);
  auto jobs = client->ListJobs();
  if (!jobs.ok()) return PrintError(jobs.status());
  std::fputs((options.json ? JobsJson(*jobs) : JobsText(*jobs)).c_str(), stdout);
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
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
