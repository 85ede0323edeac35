#include "cli/options/options.h"

#include <errno.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/options/job_options.h"
#include "cli/options/within.h"
#include "cli/render/trace/trace_file.h"
#include "common/limits/memory_ledger.h"
#include "common/log.h"
#include "common/log_format.h"

namespace strata::cli {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a job file"));
  }
  errno = 0;
  std::ifstream in(path);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in || in.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read job file ", path, ": ",
                                            errno != 0 ? strerror(errno) : "not a file"));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is empty, no job in it"));
  }
  return text;
}

}  // namespace

void AddCoordinatorAddress(CLI::App* command, std::string* address) {
  if (address->empty()) *address = FindCoordinator();
  command
      ->add_option("--coordinator", *address,
                   "HOST:PORT or unix:/PATH of the coordinator (default: this user's socket); of "
                   "several of which one leads HOST:PORT,HOST:PORT")
      ->check(CheckCoordinatorAddress);
}

void AddCoordinatorOptions(CLI::App* command, CoordinatorOptions* options) {
  AddCoordinatorAddress(command, &options->address);
  AddKeyOptions(command, &options->keys);
  command->add_option("--timeout", options->timeout_s, "Seconds to try to reach the coordinator")
      ->check(Within(0.1, 3600.0))
      ->capture_default_str();
}

void AddSessionOptions(CLI::App* command, absl::Duration* connect_deadline,
                       absl::Duration* reconnect_deadline) {
  auto add = [command](const std::string& name, const std::string& text, absl::Duration* value) {
    command
        ->add_option_function<double>(
            name, [value](double seconds) { *value = absl::Seconds(seconds); }, text)
        ->check(Within(0.1, 86400.0));
  };
  add("--timeout", "Seconds to try to reach the coordinator at first (default: 30)",
      connect_deadline);
  add("--reconnect-timeout",
      "Seconds that the coordinator may be away later; then this daemon stops (default: 60)",
      reconnect_deadline);
}

void AddNoticeOption(CLI::App* command, absl::Duration* notice) {
  command
      ->add_option_function<double>(
          "--notice", [notice](double seconds) { *notice = absl::Seconds(seconds); },
          "Seconds to go on after SIGTERM, as `strata drain` does, until what is here is "
          "elsewhere; "
          "a second signal ends at once (default: 0: end at once)")
      ->check(Within(0.0, 86400.0));
}

void AddMemoryLimitOption(CLI::App* command, uint64_t* bytes) {
  command
      ->add_option_function<std::string>(
          "--memory-limit",
          [bytes](const std::string& text) { *bytes = ParseBytes(text).value_or(0); },
          "Memory that all jobs together may be promised here, e.g. 8GiB (default: half of this "
          "machine's)")
      ->check([](const std::string& text) {
        const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
        if (!parsed.ok()) return std::string(parsed.status().message());
        return std::string(*parsed > 0 ? "" : "0 bytes are no limit");
      });
}

void AddJsonOption(CLI::App* command, bool* json) {
  command->add_flag("--json", *json, "Print JSON");
}

void AddLogLevelOption(CLI::App* command, Invocation* invocation) {
  command
      ->add_option("--log-level", invocation->log_level,
                   "What to log on stderr: debug, info, warning, error or off")
      ->capture_default_str();
}

void AddLogFormatOption(CLI::App* command) {
  command
      ->add_option_function<std::string>(
          "--log-format",
          [](const std::string& format) {
            SetLogFormat(format == LogFormatName(LogFormat::kJson) ? LogFormat::kJson
                                                                   : LogFormat::kText);
          },
          "How to write log lines: text, or json for an object a line (default: "
          "$STRATA_LOG_FORMAT, else text)")
      ->check(CLI::IsMember({LogFormatName(LogFormat::kText), LogFormatName(LogFormat::kJson)}))
      ->envname("STRATA_LOG_FORMAT");
}

void AddJobChanges(CLI::App* command, JobOptions* options) {
  command
      ->add_option("--set", options->settings,
                   "Change a field of the job: path=value, e.g. epochs=2 or "
                   "consistency.lazy.staleness=3; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--straggler", options->stragglers,
                   "Slow a node of the job down: node=1,slow=4x or node=1,delay=30ms+-10ms; may be "
                   "repeated")
      ->allow_extra_args(false);
}

void AddJobOptions(CLI::App* command, JobOptions* options) {
  AddJobChanges(command, options);
  command->add_option(
      "--mode", options->mode,
      "Shortcut for the job's consistency: sync, lazy, async, ring, delay1, ssp(s), "
      "local(H), diloco(H), quorum(K), async_damped, async_dc, easgd or significance");
}

CLI::Option* AddTraceOption(CLI::App* command, JobOptions* options) {
  return command->add_option(
      "--trace", options->trace,
      absl::StrCat("Write what happens to each chunk to this file, for https://ui.perfetto.dev: "
                   "the first ",
                   kTraceSteps, " steps, or what the job's trace { first_step, steps } says"));
}

control::CoordinatorClient::Options ClientOptions(const CoordinatorOptions& options) {
  control::CoordinatorClient::Options client;
  client.coordinator = options.address;
  client.credentials =
      options.credentials.has_value()
          ? *options.credentials
          : CredentialsOfUser(options.keys, options.address, absl::Seconds(options.timeout_s));
  client.deadline = absl::Seconds(options.timeout_s);
  return client;
}

std::unique_ptr<control::CoordinatorClient> ConnectTo(const CoordinatorOptions& options) {
  return control::CoordinatorClient::Create(ClientOptions(options));
}

absl::StatusOr<JobId> FindJob(control::CoordinatorClient& client, const std::string& id_or_name) {
  uint32_t id = 0;
  if (absl::SimpleAtoi(id_or_name, &id)) return JobId(id);
  auto jobs = client.ListJobs();
  if (!jobs.ok()) return jobs.status();
  for (const proto::JobStatus& job : *jobs) {
    if (job.name() == id_or_name) id = std::max(id, job.job_id());
  }
  if (id == 0) return absl::NotFoundError(absl::StrCat("no job ", id_or_name));
  return JobId(id);
}

absl::StatusOr<proto::Job> LoadJobAsWritten(const JobOptions& options) {
  auto text = ReadFile(options.path);
  if (!text.ok()) return text.status();
  return JobAsWrittenFrom(*text, options);
}

absl::StatusOr<proto::Job> LoadJob(const JobOptions& options) {
  auto text = ReadFile(options.path);
  if (!text.ok()) return text.status();
  auto job = JobFrom(*text, options);
  if (!job.ok() || options.trace.empty()) return job;
  if (absl::Status status = CheckTraceFile(options.trace); !status.ok()) return status;
  return job;
}

absl::StatusOr<std::optional<proto::Job>> LoadJobIfGiven(const JobOptions& options) {
  if (!options.path.empty()) return LoadJob(options);
  if (!options.trace.empty()) return absl::InvalidArgumentError("--trace needs --job");
  if (options.settings.empty() && options.mode.empty() && options.stragglers.empty()) {
    return std::nullopt;
  }
  return absl::InvalidArgumentError("--set, --mode and --straggler need --job");
}

std::string NewRunsDirectory() {
  return absl::FormatTime("strata-runs/%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone());
}

std::string HostName() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') return "localhost";
  return host;
}

std::string DefaultDaemonName() { return absl::StrCat(HostName(), "-", getpid()); }

absl::Status StartLogging(const Invocation& invocation, const std::string& process_name) {
  return InitLogging(invocation.log_level, process_name);
}

}  // namespace strata::cli
