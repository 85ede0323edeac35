#ifndef STRATA_CLI_OPTIONS_OPTIONS_H_
#define STRATA_CLI_OPTIONS_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/job_options.h"
#include "cli/options/key_options.h"
#include "cli/program/invocation.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "proto/job.pb.h"

namespace strata::cli {

// The coordinator that a client command talks to, and how long it tries.
struct CoordinatorOptions {
  std::string address = FindCoordinator();
  double timeout_s = 10;
  KeyOptions keys = {};
  // In place of `keys`: of the cluster of a command's own.
  std::optional<control::Credentials> credentials = {};
  bool json = false;
};

// An empty `address` becomes FindCoordinator.
void AddCoordinatorAddress(CLI::App* command, std::string* address);
void AddCoordinatorOptions(CLI::App* command, CoordinatorOptions* options);
// Adds the options of daemons that say how long the first contact and a later break may take.
// How long a daemon goes on after SIGTERM, for what it has to go elsewhere.
void AddNoticeOption(CLI::App* command, absl::Duration* notice);
void AddSessionOptions(CLI::App* command, absl::Duration* connect_deadline,
                       absl::Duration* reconnect_deadline);
// `bytes` stays 0 (half of this machine's memory) where the option is not given.
void AddMemoryLimitOption(CLI::App* command, uint64_t* bytes);
void AddJsonOption(CLI::App* command, bool* json);
void AddLogLevelOption(CLI::App* command, Invocation* invocation);
// How a daemon writes its log lines; takes effect while the command line is parsed.
void AddLogFormatOption(CLI::App* command);
// Without --mode.
void AddJobChanges(CLI::App* command, JobOptions* options);
void AddJobOptions(CLI::App* command, JobOptions* options);
// Adds --trace, for commands that follow their job to its end.
CLI::Option* AddTraceOption(CLI::App* command, JobOptions* options);

control::CoordinatorClient::Options ClientOptions(const CoordinatorOptions& options);
std::unique_ptr<control::CoordinatorClient> ConnectTo(const CoordinatorOptions& options);

// A job by its number, or else the newest one of that name. Errors: NotFound, Unavailable.
absl::StatusOr<JobId> FindJob(control::CoordinatorClient& client, const std::string& id_or_name);

// The job with settings applied and defaults filled in, checked. Errors: NotFound (file),
// InvalidArgument (place or option, field, value; a file for the trace that cannot be written).
absl::StatusOr<proto::Job> LoadJob(const JobOptions& options);
// Returns the job as LoadJob does, with defaults left out.
absl::StatusOr<proto::Job> LoadJobAsWritten(const JobOptions& options);

// The job of an option --job; nullopt where it is not given. Errors besides: InvalidArgument
// (changes of a job that is not there).
absl::StatusOr<std::optional<proto::Job>> LoadJobIfGiven(const JobOptions& options);

// "strata-runs/TIME", where a cluster of a command's own writes unless told otherwise.
std::string NewRunsDirectory();

// This host's name, or "localhost".
std::string HostName();
// HOSTNAME-PID, the name of a daemon that was given none.
std::string DefaultDaemonName();

// Starts logging for this process. Errors: InvalidArgument.
absl::Status StartLogging(const Invocation& invocation, const std::string& process_name);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_OPTIONS_H_
