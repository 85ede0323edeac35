#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/program/interrupt.h"
#include "cli/render/trace/trace_file.h"

namespace strata::cli {
namespace {

struct Options {
  CoordinatorOptions coordinator;
  std::string job;
  std::string file;
};

int Run(const Options& options) {
  absl::Status status = CheckTraceFile(options.file);
  if (!status.ok()) return PrintError(status);
  Interrupt interrupt;
  auto client = ConnectTo(options.coordinator);
  auto id = FindJob(*client, options.job);
  if (!id.ok()) return PrintError(id.status());
  interrupt.Catch([&client] { client->StopFollowing(); });
  status = WriteTrace(client.get(), *id, options.file, /*quiet=*/false);
  interrupt.Catch(nullptr);
  if (absl::IsCancelled(status)) return interrupt.exit_status();
  return status.ok() ? kExitOk : PrintError(std::string(status.message()), kExitFailed);
}

}  // namespace

void AddTraceCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "trace", "Write what a traced job's processes recorded to a file, once the job has ended");
  command->add_option("job", options->job, "The job's number, or its name (the newest one)")
      ->required();
  command->add_option("file", options->file, "Where to; https://ui.perfetto.dev shows it")
      ->required();
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  command->footer(
      "A job is traced that was submitted with --trace FILE, or whose file says so:\n"
      "  trace { first_step: 100 steps: 20 }\n"
      "Examples:\n"
      "  strata trace 3 lenet.json\n"
      "Exit status: 0 written, 1 not traced, or the coordinator is gone, 2 no such job or file.");
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
