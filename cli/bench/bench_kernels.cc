#include <regex.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/bench/bench.h"
#include "cli/options/options.h"
#include "cli/options/own_binary.h"
#include "common/os/process.h"

namespace strata::cli {
namespace {

struct KernelsOptions {
  std::string filter;
  double seconds = 0.5;
  bool tiny = false;
  bool json = false;
};

constexpr int kNotLoaded = 127;  // the loader's exit status

absl::Status CheckFilter(const std::string& filter) {
  regex_t compiled;
  const int error = regcomp(&compiled, filter.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error == 0) {
    regfree(&compiled);
    return absl::OkStatus();
  }
  char why[128];
  regerror(error, &compiled, why, sizeof why);
  return absl::InvalidArgumentError(absl::StrCat("--filter ", filter, ": ", why));
}

absl::StatusOr<std::string> Program() {
  const auto program = FileOfProgram("strata-kernels", "bench");
  if (!program.ok()) return program.status();
  std::error_code ignored;
  if (std::filesystem::exists(*program, ignored)) return program->string();
  return absl::NotFoundError(
      absl::StrCat(program->string(),
                   " is not there: build it with \"bazel build //bench:strata-kernels\""
                   " (Debian: libbenchmark-dev) and put it beside strata"));
}

int RunKernels(const KernelsOptions& options) {
  if (absl::Status status = CheckFilter(options.filter); !status.ok()) return PrintError(status);
  auto program = Program();
  if (!program.ok()) return PrintError(std::string(program.status().message()), kExitFailed);
  Process::Spec spec;
  spec.executable = *program;
  spec.args = {"strata-kernels", "--seconds", absl::StrCat(options.seconds)};
  if (!options.filter.empty()) spec.args.insert(spec.args.end(), {"--filter", options.filter});
  if (options.tiny) spec.args.push_back("--tiny");
  if (options.json) spec.args.push_back("--json");
  auto process = Process::Start(spec);
  if (!process.ok()) return PrintError(std::string(process.status().message()), kExitFailed);
  const ExitStatus end = (*process)->Reap();
  if (end.ok()) return kExitOk;
  if (end.code == kNotLoaded) {
    return PrintError("strata-kernels needs Google Benchmark (Debian: libbenchmark1debian)",
                      kExitFailed);
  }
  // It has said what is wrong, unless it was killed.
  if (end.signal != 0) return PrintError("strata-kernels was " + end.ToString(), kExitFailed);
  return kExitFailed;
}

}  // namespace

void AddKernelsBench(CLI::App* bench, Invocation* invocation) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command =
      bench->add_subcommand("kernels", "Sum, optimizers, codecs and checks of the CPU, one thread");
  command->add_option("--filter", options->filter,
                      "Only kernels whose name matches, like 'sum|adam' (default: all)");
  command->add_option("--seconds", options->seconds, "For how long each is measured at least")
      ->check(Within(0.001, 3600.0))
      ->capture_default_str();
  command->add_flag("--tiny", options->tiny, "1,003 elements, to see that all values are right");
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return RunKernels(*options); }; });
}

}  // namespace strata::cli
