#include "cli/options/program_job.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"

namespace strata::cli {
namespace {

constexpr size_t kNameMax = 64;

// A job's name may hold letters, digits, '.', '_' and '-', and does not begin with '.'.
std::string NameOfFile(const std::filesystem::path& file) {
  std::string name = file.stem().string().substr(0, kNameMax);
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '_' && c != '-'; }, '-');
  if (name.empty() || name[0] == '.') name.insert(0, "job");
  return name.substr(0, kNameMax);
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
  job.set_name(options.name.empty() ? NameOfFile(program) : options.name);
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
  // What a script prints is to be seen when it prints it.
  if (is_python) made->add_env("PYTHONUNBUFFERED=1");
  // Which optimizer a script has it says when it runs; a setting may still say another.
  if (is_python) job.mutable_optimizer()->mutable_from_program();
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

}  // namespace strata::cli
