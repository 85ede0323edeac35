#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/command_tree.h"
#include "cli/commands/commands.h"
#include "cli/options/own_binary.h"
#include "common/control/channel.h"

namespace strata::cli {
namespace {

// Returns the words after the program's name, with `help [COMMAND]` as `[COMMAND] --help`.
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args[0] != "help") return args;
  if (args.size() == 1) return {"--help"};
  return {args[1], "--help"};
}

std::vector<CLI::App*> CommandsNamed(CLI::App& app, const std::string& name) {
  return app.get_subcommands([&](CLI::App* command) { return command->get_name() == name; });
}

int PrintUnknownCommand(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](CLI::App* each) { return !each->get_group().empty(); })) {
    names.push_back(command->get_name());
  }
  return PrintError(
      absl::StrCat("unknown command ", word, DidYouMean(word, names), " (see strata --help)"),
      kExitUsage);
}

// Returns advice for a command line that `error` refuses: the option that was meant, or how a
// program gets an option of its own.
std::string HintFor(const CLI::ParseError& error, CLI::App* command) {
  // The error's name is that of the command, not of its kind.
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!is_extra || command == nullptr) return "";
  // For a nested command, such as `checkpoint list`, take the inner one.
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  for (const auto word : absl::StrSplit(error.what(), ' ')) {
    if (!absl::StartsWith(word, "-")) continue;
    std::string hint = DidYouMeanOption(std::string(word), *command);
    if (!hint.empty()) return hint;
    if (command->get_option_no_throw("args") != nullptr) {
      return "; a program's own arguments stand behind --";
    }
  }
  return "";
}

// Runs a command that was parsed. A relative path has no meaning in a folder that was removed.
int RunCommand(const Invocation& invocation) {
  try {
    return invocation.run();
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code ignored;
    const bool is_gone = std::filesystem::current_path(ignored).empty();
    if (!is_gone) return PrintError(error.what(), kExitFailed);
    return PrintError("the folder that this command was started in is gone: change to another one",
                      kExitFailed);
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Strata: a hierarchical parameter server for data-parallel training.\n"
      "Try: strata local --nodes 2 --slots 2 --job examples/fashion_lenet_sync.textproto");
  app.name("strata");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_help_all_flag("--help-all", "Print help with all options, their ranges and relations");
  UseShortHelp(&app);
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
  const std::vector<CLI::App*> commands = CommandsNamed(app, first);
  if (commands.empty() && !first.empty() && first[0] != '-') return PrintUnknownCommand(app, first);
  std::reverse(args.begin(), args.end());  // as the parser takes them
  try {
    app.parse(std::move(args));
  } catch (const CLI::ParseError& error) {
    // Help and version are errors of status 0 to the library.
    if (error.get_exit_code() == 0) return app.exit(error);
    CLI::App* const command = commands.empty() ? nullptr : commands.front();
    return PrintError(absl::StrCat(error.what(), HintFor(error, command), " (see strata ",
                                   command != nullptr ? first + " " : "", "--help)"),
                      kExitUsage);
  }
  control::PrepareGrpc();
  return RunCommand(invocation);
}

}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) { return strata::cli::Main(argc, argv); }
