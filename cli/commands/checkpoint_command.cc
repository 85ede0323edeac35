#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands/checkpoint_list.h"
#include "cli/commands/commands.h"
#include "cli/commands/export_checkpoint.h"
#include "cli/commands/verify_checkpoint.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/progress.h"
#include "common/checkpoint/open_store.h"
#include "common/counted.h"
#include "common/os/environment.h"

namespace strata::cli {
namespace {

struct CheckpointOptions {
  std::string dir, out, table;
  std::optional<uint64_t> step;
  bool json = false, optimizer = false;
};

std::string ReadingText(const Manifest& manifest, const ObjectFacts& object, uint64_t before) {
  return absl::StrFormat("step %d: reading %s, %s of %s", manifest.clock, object.name,
                         FormatBytes(static_cast<double>(before)),
                         FormatBytes(static_cast<double>(BytesOf(manifest))));
}

int List(const CheckpointOptions& options) {
  auto store = OpenStoreThatIsThere(options.dir, {.environment = OwnEnvironment()});
  if (!store.ok()) return PrintError(store.status());
  const auto entries = ListCheckpoints(**store);
  if (!entries.ok()) return PrintError(entries.status());
  options.json ? PrintJson(stdout, CheckpointsJson(*entries))
               : PrintText(stdout, CheckpointsText(*entries));
  return kExitOk;
}

// Reads checkpoints, and prints what came of each.
absl::StatusOr<VerdictCounts> VerifyEntries(Store& store,
                                            const std::vector<CheckpointEntry>& entries) {
  LiveLine line(stdout, TerminalColumns());
  VerdictCounts counts;
  for (const CheckpointEntry& entry : entries) {
    const auto show = [&](const ObjectFacts& object, uint64_t before) {
      line.Show(ReadingText(*entry.manifest, object, before));
    };
    const absl::StatusOr<Verdict> verdict = VerifyCheckpoint(store, entry, show);
    line.Clear();
    if (!verdict.ok()) return verdict.status();
    counts.Add(verdict->kind);
    PrintF(stdout, "step %s  %s\n", absl::StrCat(entry.clock), verdict->text);
    std::fflush(stdout);
  }
  return counts;
}

int VerifyAll(const CheckpointOptions& options) {
  constexpr int kLists = 3;
  auto store = OpenStoreThatIsThere(options.dir, {.environment = OwnEnvironment()});
  if (!store.ok()) return PrintError(store.status());
  VerdictCounts counts;
  for (int i = 0; i < kLists; ++i) {
    auto entries = ListCheckpoints(**store);
    if (!entries.ok()) return PrintError(entries.status());
    if (options.step) {
      const auto entry = FindCheckpoint(*entries, *options.step, (*store)->where());
      if (!entry.ok()) return PrintError(entry.status());
      entries = std::vector<CheckpointEntry>{*entry};
    }
    const absl::StatusOr<VerdictCounts> found = VerifyEntries(**store, *entries);
    if (!found.ok()) return PrintError(found.status());
    counts = *found;
    if (options.step || !counts.AreOutdated()) break;
  }
  if (counts.AreGood()) return kExitOk;
  return PrintError(absl::StrCat((*store)->where(), ": ", counts.whole, " of ",
                                 Counted(counts.all(), "checkpoint"),
                                 counts.whole == 1 ? " is whole" : " are whole"),
                    kExitFailed);
}

int Export(const CheckpointOptions& options) {
  auto store = OpenStoreThatIsThere(options.dir, {.environment = OwnEnvironment()});
  if (!store.ok()) return PrintError(store.status());
  LiveLine line(stdout, TerminalColumns());
  const ExportOptions how = {
      .out = options.out,
      .step = options.step,
      .optimizer = options.optimizer,
      .table = options.table,
      .on_object = [&](const Manifest& manifest, const ObjectFacts& object,
                       uint64_t before) { line.Show(ReadingText(manifest, object, before)); },
      .on_passed_over =
          [&](const std::string& text) {
            line.Clear();
            PrintF(stderr, "strata: warning: %s\n", text);
          }};
  const auto exported = ExportCheckpoint(**store, how);
  line.Clear();
  if (!exported.ok()) return PrintError(exported.status());
  const Manifest& manifest = exported->manifest;
  std::string text =
      absl::StrFormat("step %d of job %d (%s), written %s\n", manifest.clock, manifest.job,
                      Escaped(manifest.job_name), TimeText(manifest.written));
  for (const std::string& note : exported->notes)
    absl::StrAppend(&text, "note: ", Escaped(note), "\n");
  absl::StrAppendFormat(&text, "%s: %s, %s\n", Escaped(options.out),
                        Counted(exported->tensors, "tensor"),
                        FormatBytes(static_cast<double>(exported->bytes)));
  PrintText(stdout, text);
  return kExitOk;
}

CLI::App* AddOne(CLI::App* checkpoint, Invocation* invocation, const char* name, const char* help,
                 const std::shared_ptr<CheckpointOptions>& options) {
  CLI::App* command = checkpoint->add_subcommand(name, help);
  command
      ->add_option("dir", options->dir, "The folder of the checkpoints: the job's checkpoint.dir")
      ->required();
  AddLogLevelOption(command, invocation);
  return command;
}

void AddStep(CLI::App* command, CheckpointOptions* options, const std::string& text) {
  command->add_option("--step", options->step, text);
}

void AddExport(CLI::App* checkpoint, Invocation* invocation) {
  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command =
      AddOne(checkpoint, invocation, "export",
             "Write a checkpoint's weights as a safetensors file, with tensors' names", options);
  command->add_option("out", options->out, "The file; one that is there is replaced")->required();
  AddStep(command, options.get(), "The one of this step (default: the newest whole one)");
  command->add_flag("--optimizer", options->optimizer,
                    "Write the optimizer's state, too: optimizer/STATE/NAME");
  command->add_option(
      "--table", options->table,
      "Write the rows of this table instead: ids and weights; with --optimizer also\n"
      "state and clocks: the step of each row's last update, that of the slowest\n"
      "node where pushes are applied as they come");
  command->footer(
      "STATE is what PyTorch calls it: momentum_buffer of momentum_sgd and nesterov; exp_avg,\n"
      "exp_avg_sq and step of adam and adamw; sum and step of adagrad; square_avg,\n"
      "momentum_buffer and step of rmsprop_warmup. FTRL has linear and accumulator, LARS its\n"
      "velocity, in which rates are. With outer its momentum is outer/momentum_buffer/NAME. Of a\n"
      "PyTorch script with the optimizer on its ranks rank 0's parameters and fp32 buffers are\n"
      "written, and no state.\n"
      "Examples:\n"
      "  strata checkpoint export /shared/lenet weights.safetensors\n"
      "  strata checkpoint export /shared/lenet weights.safetensors --step 1000 --optimizer\n"
      "  strata checkpoint export /shared/ctr items.safetensors --table items\n"
      "Exit status: 0 written, 1 the --step is damaged, 2 no such folder, checkpoint or step, or\n"
      "none that is whole.");
  command->callback([=] { invocation->run = [options] { return Export(*options); }; });
}

}  // namespace

void AddCheckpointCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* checkpoint =
      app->add_subcommand("checkpoint", "List and verify a job's checkpoints, and export weights");
  checkpoint->require_subcommand(1);
  checkpoint->footer(
      "A step is the number of a checkpoint's folder: how many steps are in its weights, or\n"
      "rounds where nodes make several steps by themselves before they exchange.\n"
      "Examples:\n"
      "  strata checkpoint list /shared/lenet\n"
      "  strata checkpoint verify /shared/lenet --step 1000\n"
      "  strata checkpoint export /shared/lenet weights.safetensors --optimizer");

  auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command =
      AddOne(checkpoint, invocation, "list",
             "List checkpoints as far as their manifests say, newest last", options);
  AddJsonOption(command, &options->json);
  command->footer(
      "Examples:\n"
      "  strata checkpoint list /shared/lenet --json\n"
      "Exit status: 0 listed, 2 no such folder, or no checkpoint there.");
  command->callback([=] { invocation->run = [options] { return List(*options); }; });

  options = std::make_shared<CheckpointOptions>();
  command = AddOne(checkpoint, invocation, "verify",
                   "Read checkpoints, and see whether a job could go on from them", options);
  AddStep(command, options.get(), "The one of this step alone (default: all)");
  command->footer(
      "One without a manifest may be being written: it is named, and is no failure beside a whole\n"
      "one unless it is the --step. The same goes for one that its job removes while it is\n"
      "read.\n"
      "Examples:\n"
      "  strata checkpoint verify /shared/lenet\n"
      "Exit status: 0 whole, 1 one is not, 2 no such folder, checkpoint or step.");
  command->callback([=] { invocation->run = [options] { return VerifyAll(*options); }; });

  AddExport(checkpoint, invocation);
}

}  // namespace strata::cli
