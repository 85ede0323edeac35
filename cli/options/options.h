#ifndef STRATA_CLI_OPTIONS_OPTIONS_H_
#define STRATA_CLI_OPTIONS_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/invocation.h"
#include "cli/options/job_options.h"
#include "cli/options/key_options.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"

namespace CLI {
class Validator;
}  // namespace CLI

namespace strata::cli {

// The coordinator that a client command talks to, and how long it tries.
struct CoordinatorOptions {
  std::string address;  // empty: see OnCluster
  double timeout_s = 10;
  bool waits = false;  // --timeout was given: a cluster that is not there yet is waited for
  KeyOptions keys = {};
  // In place of `keys`: of the cluster of a command's own.
  std::optional<control::Credentials> credentials = {};
  bool json = false;
};

// Adds a daemon's --coordinator. An empty `address` stays empty: see FindCoordinatorOfDaemon.
void AddCoordinatorAddress(CLI::App* command, std::string* address);
void AddCoordinatorOptions(CLI::App* command, CoordinatorOptions* options);
// Adds how long a daemon continues after SIGTERM, while what it holds moves elsewhere.
void AddNoticeOption(CLI::App* command, absl::Duration* notice);
// Adds how long a daemon's first contact, and a later break of the connection, may take.
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

// Which of this user's clusters a command speaks to where nothing names one.
enum class ClusterChoice {
  kAny,   // the only one, also one that ends with its command
  kStays  // one that stays, for which --timeout is waited
};
// Names the coordinator of a command where --coordinator does not: $STRATA_COORDINATOR, else a
// cluster of this user on this machine, which is told on standard error. Then calls `run`. Returns
// its exit status; where no cluster is there, or several are, says so.
int OnCluster(CoordinatorOptions* options, ClusterChoice choice, const std::function<int()>& run);
// For commands that have a cluster of their own unless one is named: whether one is, by the option
// or, where no option of a cluster of its own is given, by $STRATA_COORDINATOR, which is told.
// Throws the parser's error where that is no address.
bool NamesCluster(const CLI::Option& coordinator, std::string* address);

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

// Makes "strata-runs/TIME" here, where a cluster of a command's own writes unless told otherwise;
// TIME-2 and so on where another command has made that. Returns its absolute path. Errors: name the
// folder.
absl::StatusOr<std::string> MakeRunsDirectory(absl::Time now);
// Returns "strata-runs/TIME-RANDOM", for hosts that are not this one.
std::string NameRunsDirectory();
// "PARENT/TIME", or "PARENT/TIME-2" and so on where that is there.
std::string NewDirectoryIn(const std::string& parent);

// This host's name, or "localhost".
std::string HostName();
// HOSTNAME-PID, the name of a daemon that was given none.
std::string DefaultDaemonName();

// Starts logging for this process. Errors: InvalidArgument.
absl::Status StartLogging(const Invocation& invocation, const std::string& process_name);

// Adds --resume: the location of the checkpoints from which a job continues.
CLI::Option* AddResumeOption(CLI::App* command, std::string* resume);

// Parses its value: a number is a job's; anything else is a bucket, or a folder, from the working
// directory on, as seen by the coordinator's host. Empty: the job starts from scratch.
proto::ResumeFrom ToResumeFrom(const std::string& text);

// CLI::Range for numbers with a fraction, which NaN does not pass.
CLI::Validator Within(double low, double high);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_OPTIONS_H_
