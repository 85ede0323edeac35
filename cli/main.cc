#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command.h"

namespace strata::cli {
namespace {

constexpr char kVersion[] = "strata 0.1.0";

int Main(int argc, char** argv) {
  CLI::App app(
      "Strata: a hierarchical parameter server for data-parallel training.\n"
      "Try: strata local --nodes 2 --slots 2 --job examples/fashion_lenet_sync.textproto");
  app.name("strata");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help and exit");
  Invocation invocation;
  AddLocalCommand(&app, &invocation);
  AddCoordinatorCommand(&app, &invocation);
  AddServerCommand(&app, &invocation);
  AddWorkerCommand(&app, &invocation);
  AddSubmitCommand(&app, &invocation);
  AddJobsCommand(&app, &invocation);
  AddStatusCommand(&app, &invocation);
  AddCancelCommand(&app, &invocation);
  AddNodesCommand(&app, &invocation);
  AddValidateCommand(&app, &invocation);
  AddRankCommand(&app, &invocation);
  AddAggregatorCommand(&app, &invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are errors of status 0 to the library.
    if (error.get_exit_code() == 0) return app.exit(error);
    return PrintError(std::string(error.what()) + " (see strata --help)", kExitUsage);
  }
  return invocation.run();
}

}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) { return strata::cli::Main(argc, argv); }
