#include "cli/options/compared_job.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"

namespace strata::cli {
namespace {

bool IsProgram(const std::string& path) {
  std::error_code ignored;
  if (absl::EndsWith(path, ".py")) return true;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

void AddComparedJob(CLI::App* command, ComparedJob* options) {
  command
      ->add_option("job", options->job.path,
                   "Job file (protobuf text, see proto/job.proto), or a program: a script *.py or "
                   "an executable file")
      ->required();
  command->add_option("args", options->args, "Arguments of the program, after --");
  command
      ->add_option("-n,--ranks", options->program.ranks,
                   "Ranks of a program; a job file says its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--python", options->program.python, "Interpreter of programs named *.py")
      ->capture_default_str();
  command->add_option("--metric", options->metric,
                      "What runs are judged by: test_accuracy, test_loss or a value that the "
                      "program reports (default: test_accuracy)");
  command
      ->add_option("--goal", options->goal,
                   "Whether the metric is to be small or large: min or max (default: min of "
                   "test_loss, else max)")
      ->check(CLI::IsMember({"min", "max"}));
}

absl::StatusOr<proto::Job> LoadComparedJob(const ComparedJob& options) {
  if (!IsProgram(options.job.path)) {
    if (options.args.empty() && options.program.ranks == 1) return LoadJobAsWritten(options.job);
    return absl::InvalidArgumentError(absl::StrCat(
        options.job.path, ": a job file, which has no ", options.args.empty() ? "-n" : "ARGS",
        " (a program is named *.py or can be executed)"));
  }
  ProgramOptions program = options.program;
  program.words = {options.job.path};
  program.words.insert(program.words.end(), options.args.begin(), options.args.end());
  const absl::StatusOr<proto::Job> made = MakeProgramJob(program);
  if (!made.ok()) return made.status();
  return JobAsWrittenFrom(JobToText(*made), options.job);
}

absl::StatusOr<compare::Metric> MetricOf(const ComparedJob& options) {
  return compare::MakeMetric(options.metric, options.goal);
}

}  // namespace strata::cli
