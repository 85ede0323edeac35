#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/export/export_tensorboard.h"
#include "cli/options/options.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

struct Options {
  std::string run_dir, out;
};

int Run(const Options& options) {
  const auto runs = ExportTensorBoard(options.run_dir, options.out);
  if (!runs.ok()) return PrintError(runs.status());
  for (const ExportedRun& run : *runs) {
    if (!run.warning.empty()) {
      std::fprintf(stderr, "strata: warning: %s\n", run.warning.c_str());
    }
    if (run.file.empty()) continue;
    std::printf("%s: %s\n", run.file.c_str(), Counted(run.records, "record").c_str());
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

  auto options = std::make_shared<Options>();
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
  tensorboard->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
