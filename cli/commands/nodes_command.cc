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
  auto nodes = client->ListNodes();
  if (!nodes.ok()) return PrintError(nodes.status());
  std::fputs((options.json ? NodesJson(*nodes) : NodesText(*nodes)).c_str(), stdout);
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
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
