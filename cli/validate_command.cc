#include <google/protobuf/text_format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options.h"

namespace strata::cli {
namespace {

int Run(const JobOptions& options) {
  auto job = LoadJob(options);
  if (!job.ok()) return PrintError(job.status());
  std::string text;
  google::protobuf::TextFormat::PrintToString(*job, &text);
  std::fputs(text.c_str(), stdout);
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
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata validate examples/fashion_lenet_sync.textproto\n"
      "  strata validate job.textproto --set schedule.base_lr=0.1");
  command->callback([=] { invocation->run = [options] { return Run(*options); }; });
}

}  // namespace strata::cli
