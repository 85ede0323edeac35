#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/program/version.h"
#include "common/control/channel.h"

namespace strata::cli {
namespace {

// What follows the program's name, with `help [COMMAND]` as `[COMMAND] --help`.
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args[0] != "help") return args;
  if (args.size() == 1) return {"--help"};
  return {args[1], "--help"};
}

bool IsCommand(CLI::App& app, const std::string& name) {
  return !app.get_subcommands([&](CLI::App* command) { return command->get_name() == name; })
              .empty();
}

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
  AddRunCommand(&app, &invocation);
  AddLaunchCommand(&app, &invocation);
  AddCoordinatorCommand(&app, &invocation);
  AddServerCommand(&app, &invocation);
  AddWorkerCommand(&app, &invocation);
  AddSubmitCommand(&app, &invocation);
  AddCompareCommand(&app, &invocation);
  AddSweepCommand(&app, &invocation);
  AddJobsCommand(&app, &invocation);
  AddKeysCommand(&app, &invocation);
  AddStatusCommand(&app, &invocation);
  AddCancelCommand(&app, &invocation);
  AddLogsCommand(&app, &invocation);
  AddTraceCommand(&app, &invocation);
  AddCheckpointCommand(&app, &invocation);
  AddExportCommand(&app, &invocation);
  AddNodesCommand(&app, &invocation);
  AddDrainCommand(&app, &invocation);
  AddUndrainCommand(&app, &invocation);
  AddTopCommand(&app, &invocation);
  AddWebCommand(&app, &invocation);
  AddDevicesCommand(&app, &invocation);
  AddValidateCommand(&app, &invocation);
  AddBenchCommand(&app, &invocation);
  AddCompletionCommand(&app, &invocation);
  AddManCommand(&app, &invocation);
  AddRankCommand(&app, &invocation);
  AddAggregatorCommand(&app, &invocation);
  AddHostCommand(&app, &invocation);
  std::vector<std::string> args = Arguments(argc, argv);
  const std::string first = args.empty() ? "" : args[0];
  const bool known = IsCommand(app, first);
  if (!known && !first.empty() && first[0] != '-') {
    return PrintError(absl::StrCat("unknown command ", first, " (see strata --help)"), kExitUsage);
  }
  std::reverse(args.begin(), args.end());  // as the parser takes them
  try {
    app.parse(std::move(args));
  } catch (const CLI::ParseError& error) {
    // Help and version are errors of status 0 to the library.
    if (error.get_exit_code() == 0) return app.exit(error);
    return PrintError(
        absl::StrCat(error.what(), " (see strata ", known ? first + " " : "", "--help)"),
        kExitUsage);
  }
  control::PrepareGrpc();
  return invocation.run();
}

}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) { return strata::cli::Main(argc, argv); }
