#ifndef STRATA_TESTS_E2E_TESTING_CLUSTER_H_
#define STRATA_TESTS_E2E_TESTING_CLUSTER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/coordinator_client.h"
#include "common/os/process.h"
#include "common/testing/test_keys.h"
#include "common/unique_fd.h"
#include "proto/control.pb.h"

namespace strata::tests {

// Upper limit for any operation, generous enough for a busy machine.
inline constexpr absl::Duration kDeadline = absl::Seconds(300);

// Absolute path of the binary under test.
std::string StrataBinary();
// Absolute path of this test case's own folder; created if needed.
std::string TestDir();

// A daemon of the system under test; killed when this object is destroyed.
struct Daemon {
  std::string title;  // "server s1"
  std::unique_ptr<Process> process;
  std::string ready_line;
  std::string log_path;
  UniqueFd out;  // its standard output, kept open: writing to a closed pipe would kill it
};

// Starts `strata ARGS` and waits for its ready line. `launcher`: a program with arguments that
// execs the `strata` command appended to it. Errors: FailedPrecondition with what it wrote instead.
absl::StatusOr<Daemon> StartDaemon(const std::string& title, const std::vector<std::string>& args,
                                   const std::vector<std::string>& launcher = {});

// Returns the value of " key=value" in a ready line.
std::string ValueIn(const std::string& line, const std::string& key);

// The result of one command.
struct CommandResult {
  ExitStatus status;
  std::string out;
  std::string err;
};
// Runs `strata ARGS` to its end; killed at the deadline. `launcher`: see StartDaemon.
CommandResult RunStrata(const std::vector<std::string>& args, absl::Duration deadline = kDeadline,
                        const std::vector<std::string>& launcher = {});

// RunStrata in two halves: start a command, then wait for its end.
struct Command {
  std::unique_ptr<Process> process;
  std::string base;  // prefix of its files
};
Command StartStrata(const std::vector<std::string>& args,
                    const std::vector<std::string>& launcher = {});
CommandResult Finish(Command command, absl::Duration deadline = kDeadline);

// Polls until `done`; false at the deadline.
bool WaitUntil(const std::function<bool()>& done, absl::Duration deadline = kDeadline);

// A cluster of real processes on loopback, on free ports, all under TestDir().
class Cluster {
 public:
  struct Options {
    int servers = 1;
    int shards = 1;  // per server
    int nodes = 1;
    int slots = 1;  // per node
    // Extra arguments of servers and workers.
    std::vector<std::string> daemon_args = {};
    std::vector<std::string> coordinator_args = {};
    // Extra arguments of servers only and of workers only; {i} stands for the daemon's index, from
    // 0.
    std::vector<std::string> server_args = {};
    std::vector<std::string> worker_args = {};
    // Without encryption and authentication.
    bool insecure = false;
  };

  explicit Cluster(Options options) : options_(options) {}

  // Returns when all daemons are ready. The coordinator and servers may have been started before.
  absl::Status Start();

  // Servers and workers started from now on reach the coordinator at this address.
  void LeadDaemonsBy(const std::string& address) { way_ = address; }

  absl::Status StartCoordinator();  // on the port it had before, if it had one
  absl::Status StartServer(int i);
  absl::Status StartWorker(int i);

  Daemon& coordinator() { return coordinator_; }
  Daemon& server(int i) { return servers_[i]; }
  Daemon& worker(int i) { return workers_[i]; }
  const std::string& address() const { return address_; }
  // Returns the command line `words` with the cluster's address and credentials added.
  std::vector<std::string> Asking(std::vector<std::string> words) const;
  // Returns the arguments with a daemon's credentials.
  std::vector<std::string> KeyArgs(keys::Role role, const std::string& name);
  // Credentials of clients; RunStrata uses the same.
  control::Credentials UserCredentials();
  std::string runs_dir() const;

  control::CoordinatorClient& client() { return *client_; }
  absl::StatusOr<JobId> Submit(const proto::Job& job) { return client_->Submit(job); }
  proto::JobStatus Status(JobId job);
  // Returns the job's status once `done` is true, or at the deadline.
  proto::JobStatus WaitFor(JobId job, const std::function<bool(const proto::JobStatus&)>& done,
                           absl::Duration deadline = kDeadline);
  proto::JobStatus WaitForEnd(JobId job, absl::Duration deadline = kDeadline);
  proto::JobStatus WaitForStep(JobId job, uint64_t step);
  // Submits the job, waits for its end and expects it to finish well.
  proto::JobStatus RunToEnd(const proto::Job& job, absl::Duration deadline = kDeadline);
  // Waits for a job that must fail; returns its reason.
  std::string RunToFailure(const proto::Job& job);

  // Sends SIGTERM to all, workers first; expects each to exit with 0.
  void StopAll();

 private:
  absl::StatusOr<Daemon> StartMember(const std::string& role, const std::string& name,
                                     std::vector<std::string> args, int i);

  const Options options_;
  std::string address_;
  std::string way_;  // address by which daemons reach the coordinator; empty: its own
  Daemon coordinator_;
  std::vector<Daemon> servers_;
  std::vector<Daemon> workers_;
  std::optional<keys::KeyFolder> keys_;
  std::unique_ptr<control::CoordinatorClient> client_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_CLUSTER_H_
