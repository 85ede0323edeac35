#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands/commands.h"
#include "cli/commands/export_tensorboard.h"
#include "cli/options/chrome_trace.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "common/counted.h"

namespace strata::cli {

namespace {

struct ExportCommandOptions {
  std::string run_dir, out;
};

int RunExport(const ExportCommandOptions& options) {
  const auto runs = ExportTensorBoard(options.run_dir, options.out);
  if (!runs.ok()) return PrintError(runs.status());
  for (const ExportedRun& run : *runs) {
    if (!run.warning.empty()) {
      PrintF(stderr, "strata: warning: %s\n", run.warning);
    }
    if (run.file.empty()) continue;
    PrintF(stdout, "%s: %s\n", run.file, Counted(run.records, "record"));
  }
  return kExitOk;
}

}  // namespace

void AddExportCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand("export", "Write a job's metrics for other programs");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  strata export tensorboard strata-runs/lenet-3");

  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* tensorboard = command->add_subcommand(
      "tensorboard", "Make an event file of a job's metrics.jsonl, as tensorboard --logdir reads");
  tensorboard
      ->add_option("run_dir", options->run_dir,
                   "The job's run directory, or the folder of a comparison")
      ->required();
  tensorboard->add_option("--out", options->out,
                          "Where to (default: RUN_DIR; of a comparison DIR/tensorboard)");
  AddLogLevelOption(tensorboard, invocation);
  tensorboard->footer(
      "The job may run still; the next export replaces this one. Of a comparison or sweep each "
      "run\n"
      "gets a folder of its own, so that tensorboard draws them over each other. Times begin with\n"
      "the training. A job with `tensorboard: true` writes events itself, as it runs.\n"
      "Examples:\n"
      "  strata export tensorboard strata-runs/lenet-3\n"
      "  strata export tensorboard comparison --out /tmp/modes && tensorboard --logdir /tmp/modes\n"
      "Exit status: 0 written, 1 a file could not be read or written, 2 no such folder, no\n"
      "metrics.jsonl or an empty one, a broken line, no whole line, or events there already.");
  tensorboard->callback([=] { invocation->run = [options] { return RunExport(*options); }; });
}

namespace {

struct TraceOptions {
  CoordinatorOptions coordinator;
  std::string job;
  std::string file;
};

int RunTrace(const TraceOptions& options) {
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
  auto options = std::make_shared<TraceOptions>();
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
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunTrace(*options); });
    };
  });
}

}  // namespace strata::cli
