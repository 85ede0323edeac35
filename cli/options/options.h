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

// The coordinator for a client command, and how long to try to reach it.
struct CoordinatorOptions {
  std::string address;  // empty: see OnCluster
  double timeout_s = 10;
  bool waits = false;  // --timeout was given: wait for a cluster that is not there yet
  KeyOptions keys = {};
  // Instead of `keys`: for a command's own cluster.
  std::optional<control::Credentials> credentials = {};
  bool json = false;
};

// Adds a daemon's --coordinator. An empty `address` stays empty: see FindCoordinatorOfDaemon.
void AddCoordinatorAddress(CLI::App* command, std::string* address);
void AddCoordinatorOptions(CLI::App* command, CoordinatorOptions* options);
// Adds how long a daemon continues after SIGTERM, while its data moves elsewhere.
void AddNoticeOption(CLI::App* command, absl::Duration* notice);
// Adds limits for a daemon's first contact, and for a later loss of the connection.
void AddSessionOptions(CLI::App* command, absl::Duration* connect_deadline,
                       absl::Duration* reconnect_deadline);
// `bytes` stays 0 (half of this machine's memory) if the option is not given.
void AddMemoryLimitOption(CLI::App* command, uint64_t* bytes);
void AddJsonOption(CLI::App* command, bool* json);
void AddLogLevelOption(CLI::App* command, Invocation* invocation);
// Adds the format of a daemon's log lines; takes effect during parsing.
void AddLogFormatOption(CLI::App* command);
// Without --mode.
void AddJobChanges(CLI::App* command, JobOptions* options);
void AddJobOptions(CLI::App* command, JobOptions* options);
// Adds --trace, for commands that follow their job to its end.
CLI::Option* AddTraceOption(CLI::App* command, JobOptions* options);

// Which of this user's clusters a command uses by default.
enum class ClusterChoice {
  kAny,   // the only one, even one that ends with its command
  kStays  // a permanent one, for which --timeout waits
};
// Finds the coordinator of a command if --coordinator does not: $STRATA_COORDINATOR, otherwise this
// user's cluster on this machine, which is printed on standard error. Then calls `run`. Returns its
// exit status; prints an error if there is no cluster, or several.
int OnCluster(CoordinatorOptions* options, ClusterChoice choice, const std::function<int()>& run);
// For commands that have a cluster of their own unless one is named: returns whether one is, by the
// option or, if no option of a cluster of its own is given, by $STRATA_COORDINATOR, which is
// printed. Throws the parser's error if that is not an address.
bool NamesCluster(const CLI::Option& coordinator, std::string* address);

control::CoordinatorClient::Options ClientOptions(const CoordinatorOptions& options);
std::unique_ptr<control::CoordinatorClient> ConnectTo(const CoordinatorOptions& options);

// Finds a job by its number, or else the newest one of that name. Errors: NotFound, Unavailable.
absl::StatusOr<JobId> FindJob(control::CoordinatorClient& client, const std::string& id_or_name);

// Returns the job with settings applied and defaults filled in, checked. Errors: NotFound (file),
// InvalidArgument (place or option, field, value; a trace file that cannot be written).
absl::StatusOr<proto::Job> LoadJob(const JobOptions& options);
// Returns the job as LoadJob does, without defaults.
absl::StatusOr<proto::Job> LoadJobAsWritten(const JobOptions& options);

// Returns the job of an option --job; nullopt if it is not given. Further errors: InvalidArgument
// (changes without a job).
absl::StatusOr<std::optional<proto::Job>> LoadJobIfGiven(const JobOptions& options);

// Creates "strata-runs/TIME" here, the default output of a command's own cluster; TIME-2 and so on
// if another command has created that. Returns its absolute path. Errors name the folder.
absl::StatusOr<std::string> MakeRunsDirectory(absl::Time now);
// Returns "strata-runs/TIME-RANDOM", for other hosts.
std::string NameRunsDirectory();
// Returns "PARENT/TIME", or "PARENT/TIME-2" and so on if that exists.
std::string NewDirectoryIn(const std::string& parent);

// This host's name, or "localhost".
std::string HostName();
// HOSTNAME-PID, the default name of a daemon.
std::string DefaultDaemonName();

// Starts logging for this process. Errors: InvalidArgument.
absl::Status StartLogging(const Invocation& invocation, const std::string& process_name);

// Adds --resume: the location of the checkpoints from which a job continues.
CLI::Option* AddResumeOption(CLI::App* command, std::string* resume);

// Parses its value: a number is a job's; anything else is a bucket, or a folder, from the working
// directory on, as seen by the coordinator's host. Empty: the job starts from scratch.
proto::ResumeFrom ToResumeFrom(const std::string& text);

// CLI::Range for fractional numbers; rejects NaN.
CLI::Validator Within(double low, double high);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_OPTIONS_H_
