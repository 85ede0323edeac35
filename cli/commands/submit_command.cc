#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/cluster/follow.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/options/resume_option.h"
#include "cli/program/interrupt.h"

namespace strata::cli {
namespace {

struct Options {
  CoordinatorOptions coordinator;
  JobOptions job;
  bool follow = false;
  std::string resume;
};

int Run(const Options& options) {
  auto job = LoadJob(options.job);
  if (!job.ok()) return PrintError(job.status());
  std::optional<Interrupt> interrupt;
  if (options.follow) interrupt.emplace();
  auto client = ConnectTo(options.coordinator);
  auto id = client->Submit(*job, ToResumeFrom(options.resume));
  if (!id.ok()) return PrintError(id.status());
  if (options.coordinator.json) {
    std::printf("{\"job_id\": %u}\n", id->value());
  } else {
    std::printf("job %u (%s) submitted\n", id->value(), job->name().c_str());
  }
  std::fflush(stdout);
  if (!options.follow) return kExitOk;
  return FollowJobUntilSignal(client.get(), *id, options.coordinator, &*interrupt,
                              options.job.trace);
}

}  // namespace

void AddSubmitCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand("submit", "Submit a job to a cluster");
  command->add_option("job", options->job.path, "Job file (protobuf text, see proto/job.proto)")
      ->required();
  AddJobOptions(command, &options->job);
  CLI::Option* follow =
      command->add_flag("--follow", options->follow,
                        "Show progress until the job ends; the exit status is the job's");
  AddTraceOption(command, &options->job)->needs(follow);
  AddResumeOption(command, &options->resume);
  AddCoordinatorOptions(command, &options->coordinator);
  AddJsonOption(command, &options->coordinator.json);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata submit examples/fashion_lenet_sync.textproto --follow\n"
      "  strata submit job.textproto --follow --trace job.json --set trace.first_step=100\n"
      "  strata submit job.textproto --mode lazy --set consistency.lazy.staleness=3\n"
      "  strata submit job.textproto --resume /shared/checkpoints/mnist --set epochs=20\n"
      "Exit status with --follow: 0 finished, 1 failed or cancelled, 2 bad input,\n"
      "130 and 143 interrupted by Ctrl-C and SIGTERM: the job goes on.\n"
      "With --follow --json each line is an object: the job's id, then status or metrics.");
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
