#include <google/protobuf/util/json_util.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "common/job/job.h"

namespace strata::cli {
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

int Run(const JobOptions& options, bool json) {
  auto job = LoadJob(options);
  if (!job.ok()) return PrintError(job.status());
  std::fputs((json ? JobToJson(*job) : JobToText(*job)).c_str(), stdout);
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
  command->callback([=] { invocation->run = [options, json] { return Run(*options, *json); }; });
}

}  // namespace strata::cli
