#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"

namespace strata::cli {
namespace {

struct Options {
  CoordinatorOptions coordinator;
  std::string job;
};

// "job 3 (lenet) has already finished"; a job that was cancelled counts, too: nothing is done.
std::string AlreadyEnded(const proto::JobStatus& job) {
  const char* how = job.state() == proto::CANCELLED ? " was already cancelled"
                    : job.state() == proto::FAILED  ? " has already failed"
                                                    : " has already finished";
  return absl::StrCat("job ", job.job_id(), " (", job.name(), ")", how);
}

int Run(const Options& options) {
  auto client = ConnectTo(options.coordinator);
  auto id = FindJob(*client, options.job);
  if (!id.ok()) return PrintError(id.status());
  auto job = client->GetJob(*id);
  if (!job.ok()) return PrintError(job.status());
  if (control::HasEnded(job->state())) return PrintError(AlreadyEnded(*job), kExitFailed);
  absl::Status status = client->Cancel(*id);
  if (!status.ok()) return PrintError(status);
  // It may have ended by itself just before.
  job = client->GetJob(*id);
  if (!job.ok()) return PrintError(job.status());
  if (control::HasEnded(job->state()) && job->state() != proto::CANCELLED) {
    return PrintError(AlreadyEnded(*job), kExitFailed);
  }
  std::printf("job %u (%s) is being cancelled\n", id->value(), job->name().c_str());
  return kExitOk;
}

}  // namespace

void AddCancelCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand("cancel", "Cancel a queued or running job");
  command->add_option("job", options->job, "The job's number, or its name (the newest one)")
      ->required();
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata cancel 3\n"
      "  strata cancel fashion-lenet-sync\n"
      "Exit status: 0 cancelled, 1 the job had ended before, 2 no such job.");
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
