#ifndef STRATA_WORKER_AGENT_JOB_PROCESSES_H_
#define STRATA_WORKER_AGENT_JOB_PROCESSES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/os/channel.h"
#include "common/os/event_loop.h"
#include "common/os/process.h"
#include "common/transport/endpoint.h"
#include "common/unique_fd.h"
#include "proto/control.pb.h"
#include "proto/processes.pb.h"
#include "worker/agent/job_processes_core.h"
#include "worker/agent/metrics_log.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {

// Identifies processes of a job: those of one node, of one attempt, and of one incarnation of the
// node.
struct NodeProcesses {
  uint32_t attempt = 0;
  uint32_t node = 0;
  uint32_t incarnation = 0;

  static NodeProcesses Of(const proto::StartNode& start) {
    return {start.record().attempt(), start.node(), start.incarnation()};
  }

  bool operator==(const NodeProcesses&) const = default;
  // Returns whether `others`, which the coordinator mentioned earlier, must make room for these. A
  // worker runs one node of a job at a time: a command to start one is newer than one about another
  // node that it has run.
  bool Replaces(const NodeProcesses& others) const {
    if (attempt != others.attempt) return attempt > others.attempt;
    return node != others.node || incarnation > others.incarnation;
  }
};

// The processes of one job on this node, from StartNode until the last of them is gone. It owns
// them, their sockets and the job's timers, and executes the decisions of JobProcessesCore.
//
// Threads: the event loop's. Its callbacks must not destroy it; on_gone may ask the loop to.
class JobProcesses {
 public:
  struct Options : JobDeadlines {
    std::string binary;    // executable of `strata rank` and `strata aggregator`
    std::string daemon;    // this worker's name
    std::string runs_dir;  // parent of run directories
    RunAccess run_access = RunAccess::kOwn;
    proto::ListenAt listen;     // for aggregators that all-reduce
    std::string device_plugin;  // for jobs on GPUs
  };
  struct Callbacks {
    std::function<void(proto::DaemonMessage)> send;
    JobProcessesCore::Admit admit = nullptr;
    // Returns the GPU of each local rank of a job on GPUs; called again after Unavailable. May be
    // null for jobs on the CPU.
    std::function<absl::StatusOr<std::vector<uint32_t>>()> take_gpus = nullptr;
    // No process is left and the coordinator has been told the outcome.
    std::function<void()> on_gone;
  };

  JobProcesses(EventLoop* loop, Options options, proto::StartNode start, Callbacks callbacks);
  ~JobProcesses();

  // Claims the run directory and starts the processes; failures are sent as NodeFailed.
  void Start();

  // Once; a repetition (the coordinator cannot know whether the first call came) does nothing.
  void Run(const proto::RunNode& run);
  // Asks the aggregator to measure, any number of times; each result is sent as LinkMeasured.
  void Measure(const proto::MeasureLink& measure);
  // See JobProcessesCore.
  void Tell(const proto::AgentMessage& message);
  // Passes on to the ranks a signal that is meant for their program.
  void SignalRanks(int signal);
  // Ends all processes without further reports.
  void Stop();
  // Ends all processes because their worker daemon stops, and reports `reason`, if nothing was
  // reported yet.
  void Die(const std::string& reason);
  // Appends a line to metrics.jsonl: see MetricsLog.
  void Append(const proto::MetricsRecord& record);
  // The log that Append writes to, for records that come after this object is destroyed.
  MetricsLog TakeMetrics() { return std::move(metrics_); }
  // Repeats NodeReady, if it was sent: the coordinator may have missed it.
  void RepeatReady();

  // The node's current activity.
  proto::NodeActivity Activity() const;
  // See NodeWatch.
  transport::Refusals refusals() const { return core_.watch().refusals(); }

  uint32_t attempt() const { return core_.attempt(); }
  const std::string& run_dir() const { return run_dir_; }
  // The user with keys who owns the job; empty: none.
  const std::string& owner() const { return start_.owner(); }
  // Which of the job's processes these are.
  NodeProcesses which() const { return {core_.attempt(), core_.node(), core_.incarnation()}; }

 private:
  struct Child {
    std::unique_ptr<Process> process;
    std::unique_ptr<Channel> channel;
    std::string log_path;
  };

  // Performs the core's actions, and schedules the next call when it is due. After every event.
  void Do();
  void Perform(const JobProcessesCore::Action& action);
  void ArmTimer();

  // Errors: Unavailable if another job holds something that this one needs.
  absl::Status ClaimAll();
  absl::Status StartAll();
  // `threads`: a variable for ranks of the user's program; empty: none.
  absl::Status StartChild(int child, int theirs, const std::string& threads);
  proto::Launch MakeLaunch(int child) const;
  void WatchChannel(int child);
  void OnChannel(int child);
  void OnEnd(int child);
  void SendDown(const proto::AgentMessage& message);

  EventLoop* loop_;
  const RealClock clock_;
  const Options options_;
  const proto::StartNode start_;
  const Callbacks callbacks_;
  const std::string run_dir_;
  const std::string socket_name_;
  JobProcessesCore core_;
  MetricsLog metrics_;          // and events
  UniqueFd claim_;              // of the run directory; outlives children_
  std::vector<uint32_t> gpus_;  // by local rank
  std::vector<Child> children_;
  absl::Time timer_due_ = absl::InfiniteFuture();  // of the earliest armed timer
  OwnedTimers<EventLoop> timers_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_JOB_PROCESSES_H_
