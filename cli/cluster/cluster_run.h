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
#include "cli/cluster/rank_output.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "common/process/event_loop.h"
#include "common/process/stop_request.h"
#include "proto/job.pb.h"

namespace strata::cli {

// A command that has a cluster of its own: starts it, runs a job on it and follows it, or does
// other work there, or without either waits for Ctrl-C or SIGTERM, and stops it. A second signal
// stops at once.
//
// Threads: Run is the event loop's thread; create it before anything that starts threads.
class ClusterRun {
 public:
  struct Options {
    ClusterLife::Options cluster;
    std::optional<proto::Job> job;
    proto::ResumeFrom resume;  // what the job goes on from; empty: it begins anew
    std::string trace;         // file for the job's trace; empty: none
    RankOutputOptions output;
    // What is done in place of a job. `run` is called on a thread of its own and returns the exit
    // status; `stop` makes it return soon, and may come before it.
    struct Work {
      std::function<int(const std::string& coordinator)> run;
      std::function<void()> stop;
    };
    std::optional<Work> work;
    // Called once all is ready, before the line that says so; may be null.
    std::function<void(const std::string& coordinator, const std::optional<keys::KeyFile>& keys)>
        on_ready;
    // What says that all is ready, one line without the line break; null: nothing does.
    std::function<std::string(const std::string& coordinator)> ready_line;
    // Follows the job to its end, on a thread of its own, and returns the exit status (nullopt: by
    // StopFollowing). Null: FollowJob, which shows its progress.
    std::function<std::optional<int>(control::CoordinatorClient* client, JobId job)> follow;
    // Called before the daemons start and after they have stopped; may be null. Not OK: what is
    // wrong has been said, the exit status is kExitFailed.
    std::function<void(std::function<void(absl::Status)>)> before;
    std::function<void(std::function<void()>)> after;
    // Whether the job can run on the cluster as it is ready now; may be null.
    std::function<absl::Status()> check_job;
    std::function<void(const PlannedDaemon&, const std::string& ready_line)> on_progress;
    // This user's, for a coordinator at a HOST:PORT.
    std::optional<keys::KeyFile> keys;
  };

  ClusterRun(EventLoop* loop, DaemonStarter* starter, Options options);

  // Returns the exit status: with a job the job's, with work the work's.
  int Run();

 private:
  void OnPrepared(const absl::Status& status);
  void OnReady(const absl::Status& status);
  void StartWork();
  void OnFollowed(const absl::Status& submitted);
  void OnLost(const PlannedDaemon& daemon, const std::string& why);
  void OnSignal();
  // Once, when the follower writes no more: what the job stands for, if it has ended all the same.
  void EndInterrupted();
  // The cluster ends with the command: what the job has still to write is waited for.
  void AwaitCheckpoint(JobId job);
  // Lets other commands of this user use the cluster.
  void LendKeys();
  void PrintHowTo();
  void Stop();

  EventLoop* loop_;
  const Options options_;
  StopRequest signals_;
  ClusterLife cluster_;
  LentKeys lent_keys_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::thread follower_;
  std::optional<int> followed_;  // the follower's until it has posted OnFollowed or is joined
  std::atomic<bool> stopping_ = false;
  bool interrupted_ = false;
  bool has_ended_interrupted_ = false;
  int exit_status_ = 0;
};

// Whether a cluster with so many servers can run the job at all. Errors: InvalidArgument.
absl::Status CheckServers(const proto::Job& job, int servers);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_CLUSTER_RUN_H_
