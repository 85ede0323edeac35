#include "cli/options/program_job.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/options/invocation.h"
#include "common/job/job.h"

namespace strata::cli {

namespace {

constexpr size_t kNameMax = 64;

// A job's name may hold letters, digits, '.', '_' and '-', and does not begin with '.'.
std::string ProgramJobNameOf(std::string name) {
  name.resize(std::min(name.size(), kNameMax));
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '_' && c != '-'; }, '-');
  if (name.empty() || name[0] == '.') name.insert(0, "job");
  return name.substr(0, kNameMax);
}

// Returns whether the program is Python's interpreter: python, python3, python3.11.
bool IsInterpreter(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename();
  constexpr absl::string_view kPython = "python";
  return absl::StartsWith(name, kPython) &&
         name.find_first_not_of("0123456789.", kPython.size()) == std::string::npos;
}

// Returns what an interpreter is told to run, for the job's name: a script or a module.
std::string RunBy(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-m" && i + 1 < words.size()) return words[i + 1];
    if (words[i] == "-c") break;
    if (words[i] == "-X" || words[i] == "-W") {
      ++i;
    } else if (!absl::StartsWith(words[i], "-")) {
      return std::filesystem::path(words[i]).stem();
    }
  }
  return words[0];
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::string Absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

absl::StatusOr<proto::Job> MakeProgramJob(const ProgramOptions& options) {
  if (options.words.empty()) return absl::InvalidArgumentError("PROGRAM is missing");
  const std::string& program = options.words[0];
  if (absl::StartsWith(program, "-")) {
    return absl::InvalidArgumentError(absl::StrCat("unknown option ", program));
  }
  const bool is_python = absl::EndsWith(program, ".py");
  const bool is_path = is_python || absl::StrContains(program, '/') || IsFile(program);
  if (is_path && !IsFile(program)) {
    return absl::NotFoundError(absl::StrCat(program, std::filesystem::is_directory(program)
                                                         ? ": is a folder, not a program"
                                                         : ": no such file"));
  }
  if (is_path && !is_python && access(program.c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(program, ": is not executable; a Python script's name ends in .py"));
  }
  proto::Job job;
  const bool is_interpreter = IsInterpreter(program);
  job.set_name(!options.name.empty() ? options.name
               : is_interpreter      ? ProgramJobNameOf(RunBy(options.words))
                                     : ProgramJobNameOf(std::filesystem::path(program).stem()));
  proto::Program* const made = job.mutable_program();
  const std::string own = is_path ? Absolute(program) : program;
  if (is_python) {
    const bool is_interpreter_path = absl::StrContains(options.python, '/');
    made->set_path(is_interpreter_path ? Absolute(options.python) : options.python);
    made->add_args(own);
  } else {
    made->set_path(own);
  }
  for (size_t i = 1; i < options.words.size(); ++i) made->add_args(options.words[i]);
  for (const char* variable :
       {"STRATA_LAUNCH={launch}", "RANK={rank}", "WORLD_SIZE={ranks}", "LOCAL_RANK={local_rank}",
        "LOCAL_WORLD_SIZE={local_ranks}", "STRATA_SEED={seed}"}) {
    made->add_env(variable);
  }
  // A script's output appears as soon as it is printed.
  if (is_python || is_interpreter) made->add_env("PYTHONUNBUFFERED=1");
  // A script says its optimizer when it runs; a setting may still say another.
  if (is_python || is_interpreter) job.mutable_optimizer()->mutable_from_program();
  job.set_ranks(options.ranks);
  if (options.nodes > 1) job.set_ranks_per_node((options.ranks - 1) / options.nodes + 1);
  return job;
}

bool LeaveOutServers(proto::Job* job) {
  if (job->exchange() != proto::Job::PARAMETER_SERVER) return false;
  proto::Job ring = *job;
  ring.set_exchange(proto::Job::RING);
  proto::Job full = ring;
  FillDefaults(&full);
  if (!ValidateJob(full).ok()) return false;
  *job = std::move(ring);
  return true;
}

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
                   "Job file (see docs/job-reference.md), or a program: a script *.py or an "
                   "executable file")
      ->required();
  command->add_option("args", options->args, "Behind --: what the program is given");
  command
      ->add_option("-n,--ranks", options->program.ranks,
                   "Ranks of a program; a job file has its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--python", options->program.python, "Interpreter of programs named *.py")
      ->capture_default_str()
      ->group(kMoreOptions);
  command->add_option("--metric", options->metric,
                      "What judges runs: test_accuracy, test_loss or a value that the program "
                      "reports (default: test_accuracy)");
  command
      ->add_option("--goal", options->goal,
                   "Whether less or more of the metric is better: min or max (default: min of "
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

absl::StatusOr<compare::Metric> MetricOf(const ComparedJob& options, const proto::Job& job) {
  const auto refuse = [](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("--", status.message()));
  };
  const absl::StatusOr<compare::Metric> metric = compare::MakeMetric(options.metric, options.goal);
  if (!metric.ok()) return refuse(metric.status());
  const absl::Status can = compare::CheckCanHave(job, *metric);
  return can.ok() ? metric : refuse(can);
}

}  // namespace strata::cli
