#include <google/protobuf/util/json_util.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/cluster/follow.h"
#include "cli/commands/commands.h"
#include "cli/options/interrupt.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "common/job/job.h"

namespace strata::cli {

namespace {

struct SubmitOptions {
  CoordinatorOptions coordinator;
  JobOptions job;
  bool follow = false;
  std::string resume;
};

int Submit(const proto::Job& job, const SubmitOptions& options) {
  std::optional<Interrupt> interrupt;
  if (options.follow) interrupt.emplace();
  auto client = ConnectTo(options.coordinator);
  auto id = client->Submit(job, ToResumeFrom(options.resume));
  if (!id.ok()) return PrintError(id.status());
  if (options.coordinator.json) {
    PrintF(stdout, "{\"job_id\": %u}\n", id->value());
  } else {
    PrintF(stdout, "job %u (%s) submitted\n", id->value(), job.name());
  }
  std::fflush(stdout);
  if (!options.follow) return kExitOk;
  return FollowJobUntilSignal(client.get(), *id, options.coordinator, &*interrupt,
                              options.job.trace);
}

int RunSubmit(SubmitOptions options) {
  const auto job = LoadJob(options.job);
  if (!job.ok()) return PrintError(job.status());
  return OnCluster(&options.coordinator, ClusterChoice::kStays,
                   [&] { return Submit(*job, options); });
}

}  // namespace

void AddSubmitCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<SubmitOptions>();
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
  command->callback([=] { invocation->run = [options] { return RunSubmit(*options); }; });
}

namespace {

// The job with every field, also those whose default is 0, in the names of proto/job.proto.
std::string JobToJson(const proto::Job& job) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(job, &json, options);
  return status.ok() ? json : "";
}

int RunValidate(const JobOptions& options, bool json) {
  auto job = LoadJob(options);
  if (!job.ok()) return PrintError(job.status());
  json ? PrintJson(stdout, JobToJson(*job)) : PrintText(stdout, JobToText(*job));
  return kExitOk;
}

}  // namespace

void AddValidateCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<JobOptions>();
  CLI::App* command =
      app->add_subcommand("validate", "Check a job file and print it with all defaults filled in");
  command->add_option("job", options->path, "Job file (protobuf text, see proto/job.proto)")
      ->required();
  AddJobOptions(command, options.get());
  auto json = std::make_shared<bool>(false);
  AddJsonOption(command, json.get());
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata validate examples/fashion_lenet_sync.textproto\n"
      "  strata validate job.textproto --set schedule.base_lr=0.1");
  command->callback(
      [=] { invocation->run = [options, json] { return RunValidate(*options, *json); }; });
}

namespace {

struct CancelOptions {
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

int RunCancel(const CancelOptions& options) {
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
  PrintF(stdout, "job %u (%s) is being cancelled\n", id->value(), job->name());
  return kExitOk;
}

}  // namespace

void AddCancelCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<CancelOptions>();
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
  command->callback([=] {
    invocation->run = [options] {
      return OnCluster(&options->coordinator, ClusterChoice::kAny,
                       [&] { return RunCancel(*options); });
    };
  });
}

}  // namespace strata::cli
