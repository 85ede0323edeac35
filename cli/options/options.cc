#include "cli/options/options.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/options/chrome_trace.h"
#include "cli/options/job_options.h"
#include "cli/options/terminal.h"
#include "common/counted.h"
#include "common/log.h"
#include "common/os/atomic_file.h"
#include "common/os/memory_ledger.h"
#include "common/os/trusted_file.h"

namespace strata::cli {

namespace {

constexpr size_t kJobFileBytesMax = 4 << 20;

absl::StatusOr<std::string> ReadJobFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a job file"));
  }
  // It may be a pipe, such as /dev/stdin.
  absl::StatusOr<std::string> text = ReadFileOrPipe(path, kJobFileBytesMax);
  if (!text.ok()) {
    return absl::Status(
        absl::IsInvalidArgument(text.status()) ? text.status().code() : absl::StatusCode::kNotFound,
        absl::StrCat("cannot read job file ", text.status().message()));
  }
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is empty, no job in it"));
  }
  return text;
}

void AddAddress(CLI::App* command, std::string* address, const std::string& otherwise) {
  command
      ->add_option("--coordinator", *address,
                   absl::StrCat("HOST:PORT or unix:/PATH of the coordinator (default: ", otherwise,
                                "); of several of which one leads HOST:PORT,HOST:PORT"))
      ->check(CheckCoordinatorAddress);
}

// The interval of looks for a cluster.
constexpr absl::Duration kLook = absl::Milliseconds(100);

// "unix:/run/user/1000/strata/81-0a1b2c3d (strata run train.py)"
std::string NameOf(const ClusterHere& cluster) {
  return cluster.command.empty() ? cluster.address
                                 : absl::StrCat(cluster.address, " (", cluster.command, ")");
}

std::string NamesOf(const std::vector<ClusterHere>& clusters) {
  return absl::StrJoin(clusters, ", or ", [](std::string* out, const ClusterHere& cluster) {
    absl::StrAppend(out, "--coordinator ", NameOf(cluster));
  });
}

absl::Status NoCluster(const CoordinatorOptions& options, const std::vector<ClusterHere>& others) {
  if (!others.empty()) {
    return absl::UnavailableError(
        absl::StrCat("no cluster that stays is on this machine; those that end with their command "
                     "take a job where it is said: ",
                     NamesOf(others)));
  }
  const std::string tried =
      options.waits ? absl::StrFormat(" (tried for %g s)", options.timeout_s) : "";
  return absl::UnavailableError(absl::StrCat(
      "no cluster of this user is on this machine", tried,
      ": `strata local` starts one; --coordinator HOST:PORT or $STRATA_COORDINATOR names one "
      "elsewhere, and --timeout SECONDS waits for one"));
}

// Returns the one that there is; else waits as `options` and `choice` say.
absl::StatusOr<ClusterHere> ChooseCluster(const CoordinatorOptions& options, ClusterChoice choice) {
  const bool waits = options.waits || choice == ClusterChoice::kStays;
  const absl::Time give_up_at =
      waits ? absl::Now() + absl::Seconds(options.timeout_s) : absl::InfinitePast();
  for (bool said = false;; absl::SleepFor(kLook)) {
    const std::vector<ClusterHere> clusters = ListClustersHere();
    if (choice == ClusterChoice::kStays && !clusters.empty() && clusters[0].stays) {
      return clusters[0];
    }
    if (choice == ClusterChoice::kAny && clusters.size() == 1) return clusters[0];
    if (choice == ClusterChoice::kAny && clusters.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(Counted(clusters.size(), "cluster"),
                       " of this user are on this machine: say which: ", NamesOf(clusters)));
    }
    if (absl::Now() >= give_up_at) return NoCluster(options, clusters);
    if (!said) {
      PrintF(stderr, "strata: waits up to %g s for a cluster on this machine\n", options.timeout_s);
    }
    said = true;
  }
}

}  // namespace

void AddCoordinatorAddress(CLI::App* command, std::string* address) {
  AddAddress(command, address, "$STRATA_COORDINATOR, else this user's socket");
}

void AddCoordinatorOptions(CLI::App* command, CoordinatorOptions* options) {
  AddAddress(command, &options->address,
             "$STRATA_COORDINATOR, else this user's cluster on this machine");
  AddKeyOptions(command, &options->keys);
  command->add_option("--timeout", options->timeout_s, "Seconds to try to reach the coordinator")
      ->check(Within(0.1, 3600.0))
      ->each([options](const std::string&) { options->waits = true; })
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
      "Shortcut for the job's consistency, with numbers of your own: sync, lazy, async, ring, "
      "delay1, ssp(3), local(16), diloco(16), quorum(3), async_damped, async_dc, easgd or "
      "significance");
}

CLI::Option* AddTraceOption(CLI::App* command, JobOptions* options) {
  return command->add_option(
      "--trace", options->trace,
      absl::StrCat("Write what happens to each chunk to this file, for https://ui.perfetto.dev: "
                   "the first ",
                   kTraceSteps, " steps, or what the job's trace { first_step, steps } says"));
}

int OnCluster(CoordinatorOptions* options, ClusterChoice choice, const std::function<int()>& run) {
  if (!options->address.empty()) return run();
  absl::StatusOr<std::string> named = CoordinatorOfEnvironment();
  if (!named.ok()) return PrintError(named.status());
  if (!named->empty()) {
    options->address = *std::move(named);
    return run();
  }
  const absl::StatusOr<ClusterHere> cluster = ChooseCluster(*options, choice);
  if (!cluster.ok()) return PrintError(cluster.status());
  options->address = cluster->address;
  // Lines of JSON have nothing else among them; what logs so names the cluster itself.
  if (CurrentLogFormat() == LogFormat::kText) {
    PrintF(stderr, "strata: cluster %s\n", NameOf(*cluster));
  }
  return run();
}

bool NamesCluster(const CLI::Option& coordinator, std::string* address) {
  if (coordinator.count() > 0) return true;
  for (const CLI::Option* own : coordinator.get_excludes()) {
    if (own->count() > 0) return false;
  }
  absl::StatusOr<std::string> named = CoordinatorOfEnvironment();
  if (!named.ok()) {
    throw CLI::ValidationError(std::string(named.status().message()),
                               CLI::ExitCodes::ValidationError);
  }
  if (named->empty()) return false;
  *address = *std::move(named);
  PrintF(stderr, "strata: cluster %s, of $STRATA_COORDINATOR\n", *address);
  return true;
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
  auto text = ReadJobFile(options.path);
  if (!text.ok()) return text.status();
  return JobAsWrittenFrom(*text, options);
}

absl::StatusOr<proto::Job> LoadJob(const JobOptions& options) {
  auto text = ReadJobFile(options.path);
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

absl::StatusOr<std::string> MakeRunsDirectory(absl::Time now) {
  constexpr char kParent[] = "strata-runs";
  // As many commands of one second have a folder each.
  constexpr int kAttempts = 10'000;
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::absolute(kParent, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the working folder is not there any more: ", error.message()));
  }
  if (absl::Status made = MakeOwnFolders(parent); !made.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write to directory ", made.message()));
  }
  const std::string base = parent / absl::FormatTime("%Y%m%d-%H%M%S", now, absl::UTCTimeZone());
  for (int i = 1; i <= kAttempts; ++i) {
    const std::string folder = i == 1 ? base : absl::StrCat(base, "-", i);
    if (mkdir(folder.c_str(), 0700) == 0) return folder;
    if (errno != EEXIST) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot write to directory ", folder, ": ", strerror(errno)));
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(base, ": ", kAttempts, " of its name are there"));
}

std::string NameRunsDirectory() {
  return absl::StrCat(
      absl::FormatTime("strata-runs/%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone()),
      absl::StrFormat("-%08x", std::random_device()()));
}

std::string NewDirectoryIn(const std::string& parent) {
  const std::string first = absl::StrCat(
      parent, "/", absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone()));
  std::string path = first;
  std::error_code ignored;
  for (int i = 2; std::filesystem::exists(path, ignored); ++i) path = absl::StrCat(first, "-", i);
  return path;
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

CLI::Option* AddResumeOption(CLI::App* command, std::string* resume) {
  return command
      ->add_option("--resume", *resume,
                   "Go on from the newest whole checkpoint in this folder, or of this job")
      ->type_name("DIR|JOB_ID");
}

proto::ResumeFrom ToResumeFrom(const std::string& text) {
  proto::ResumeFrom from;
  uint32_t job = 0;
  std::error_code gone;  // the working directory
  if (absl::SimpleAtoi(text, &job)) {
    from.set_job_id(job);
  } else if (text.empty() || text.front() == '/' || absl::StrContains(text, "://")) {
    from.set_dir(text);
  } else {
    const std::filesystem::path path = std::filesystem::absolute(text, gone);
    from.set_dir(gone ? text : path.lexically_normal().string());
  }
  return from;
}

CLI::Validator Within(double low, double high) {
  const auto check = [low, high](std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return "";
    return absl::StrFormat("Value %s not in range %g to %g", text, low, high);
  };
  return CLI::Validator(check, absl::StrFormat("FLOAT in [%g - %g]", low, high));
}

}  // namespace strata::cli
