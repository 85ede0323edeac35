#ifndef STRATA_CLI_CLUSTER_CLUSTER_RUN_H_
#define STRATA_CLI_CLUSTER_CLUSTER_RUN_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "cli/cluster/cluster_keys.h"
#include "cli/cluster/cluster_life.h"
#include "cli/cluster/follow.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "common/os/event_loop.h"
#include "common/os/stop_request.h"
#include "proto/job.pb.h"

namespace strata::cli {

// A command with a cluster of its own: starts it, runs a job on it and follows it, or does other
// work there, or otherwise waits for Ctrl-C or SIGTERM, and stops it. A second signal stops at
// once.
//
// Threads: Run is the event loop's thread; create it before anything that starts threads.
class ClusterRun {
 public:
  struct Options {
    ClusterLife::Options cluster;
    std::optional<proto::Job> job;
    proto::ResumeFrom resume;  // the checkpoints to continue from; empty: none
    std::string trace;         // file for the job's trace; empty: none
    RankOutputOptions output;
    // Work instead of a job. `run` is called on a thread of its own and returns the exit status;
    // `stop` makes it return soon, and may come before it.
    struct Work {
      std::function<int(const std::string& coordinator)> run;
      std::function<void()> stop;
    };
    std::optional<Work> work;
    // Called once everything is ready, before the ready line; may be null.
    std::function<void(const std::string& coordinator, const std::optional<keys::KeyFile>& keys)>
        on_ready;
    // Returns the ready line, without the line break; null: none.
    std::function<std::string(const std::string& coordinator)> ready_line;
    // Follows the job to its end, on a thread of its own, and returns the exit status (nullopt: by
    // StopFollowing). Null: FollowJob, which shows its progress.
    std::function<std::optional<int>(control::CoordinatorClient* client, JobId job)> follow;
    // Called before the daemons start and after they have stopped; may be null. Not OK: the error
    // was printed, the exit status is kExitFailed.
    std::function<void(std::function<void(absl::Status)>)> before;
    std::function<void(std::function<void()>)> after;
    // Checks that the job can run on the ready cluster; may be null.
    std::function<absl::Status()> check_job;
    std::function<void(const PlannedDaemon&, const std::string& ready_line)> on_progress;
    // If false, only the coordinator's exit ends the run. A job that needs another daemon that has
    // exited then fails with the coordinator's reason.
    bool ends_with_any_daemon = true;
    // Gets the fatal error instead of standard error; may be null.
    std::function<void(const std::string& error)> on_error;
    // This user's, for a coordinator at a HOST:PORT.
    std::optional<keys::KeyFile> keys;
  };

  ClusterRun(EventLoop* loop, DaemonStarter* starter, Options options);

  // Returns the exit status: the job's or the work's.
  int Run();

 private:
  void OnPrepared(const absl::Status& status);
  void OnReady(const absl::Status& status);
  void StartWork();
  void OnFollowed(const absl::Status& submitted);
  void OnLost(const PlannedDaemon& daemon, const std::string& why);
  void OnRestart(const PlannedDaemon& daemon, const std::string& why, absl::Duration delay);
  // Reports the fatal error. Returns the exit status.
  int Fail(const std::string& error) const;
  void OnSignal();
  void PassSignalsOn();
  // Says at the very end, when nothing writes checkpoints any more, what an interrupted run stands
  // for: how to continue, or what the job does if it has ended all the same.
  void EndInterrupted();
  // The cluster ends with the command: waits for what the job has still to write.
  void AwaitCheckpoint(JobId job);
  // Lets other commands of this user use the cluster.
  void LendKeys();
  void PrintHowTo();
  void Stop();

  EventLoop* loop_;
  const Options options_;
  StopRequest signals_;
  PassedSignals passed_;
  ClusterLife cluster_;
  LentKeys lent_keys_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::thread follower_;
  // The follower's until it has posted OnFollowed or is joined.
  std::optional<int> followed_;
  proto::JobStatus newest_;
  std::atomic<bool> stopping_ = false;
  bool interrupted_ = false;
  int exit_status_ = 0;
};

// Checks that a cluster with this many servers can run the job at all. Errors: InvalidArgument.
absl::Status CheckServers(const proto::Job& job, int servers);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_CLUSTER_RUN_H_
