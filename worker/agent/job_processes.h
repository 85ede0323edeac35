#ifndef STRATA_WORKER_AGENT_JOB_PROCESSES_H_
#define STRATA_WORKER_AGENT_JOB_PROCESSES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/process/channel.h"
#include "common/process/event_loop.h"
#include "common/process/owned_timers.h"
#include "common/process/process.h"
#include "common/transport/endpoint_refusals.h"
#include "common/unique_fd.h"
#include "proto/control.pb.h"
#include "worker/agent/job_processes_core.h"
#include "worker/agent/metrics_log.h"
#include "worker/agent/node_processes.h"
#include "worker/agent/runs/run_directory.h"

namespace strata::worker {

// The processes of one job on this node, from StartNode until the last of them is gone: it owns
// them, their sockets and the job's timers, and does what JobProcessesCore decides.
//
// Threads: the event loop's. Its callbacks may not destroy it; on_gone may ask the loop to.
class JobProcesses {
 public:
  struct Options : JobDeadlines {
    std::string binary;    // executable of `strata rank` and `strata aggregator`
    std::string daemon;    // this worker's name
    std::string runs_dir;  // parent of run directories
    RunAccess run_access = RunAccess::kOwn;
    proto::ListenAt listen;     // of aggregators that all-reduce
    std::string device_plugin;  // for jobs on GPUs
  };
  struct Callbacks {
    std::function<void(proto::DaemonMessage)> send;
    JobProcessesCore::Admit admit = nullptr;
    // The GPU of each local rank of a job on GPUs; what is Unavailable is asked for again. May be
    // null: for jobs on the CPU.
    std::function<absl::StatusOr<std::vector<uint32_t>>()> take_gpus = nullptr;
    // No process is left and the coordinator has been told how it went.
    std::function<void()> on_gone;
  };

  JobProcesses(EventLoop* loop, Options options, proto::StartNode start, Callbacks callbacks);
  ~JobProcesses();

  // Claims the run directory and starts the processes; what goes wrong is sent as NodeFailed.
  void Start();

  // Once; a repetition (the coordinator cannot know whether the first one came) does nothing.
  void Run(const proto::RunNode& run);
  // Asks the aggregator, any number of times; what it finds is sent as LinkMeasured, again for
  // each.
  void Measure(const proto::MeasureLink& measure);
  // See JobProcessesCore.
  void Tell(const proto::AgentMessage& message);
  // Ends all processes without further reports.
  void Stop();
  // Ends all processes, as their worker daemon ends, and reports `reason`, if nothing was reported
  // yet.
  void Die(const std::string& reason);
  // One line for metrics.jsonl: see MetricsLog.
  void Append(const proto::MetricsRecord& record);
  // What Append writes to, for records that come after this object is gone.
  MetricsLog TakeMetrics() { return std::move(metrics_); }
  // Says NodeReady again, if it was said: the coordinator may have missed it.
  void RepeatReady();

  // What the node does now.
  proto::NodeActivity Activity() const;
  // See NodeWatch.
  transport::Refusals refusals() const { return core_.watch().refusals(); }

  uint32_t attempt() const { return core_.attempt(); }
  // Which of the job's processes these are.
  NodeProcesses which() const { return {core_.attempt(), core_.node(), core_.incarnation()}; }

 private:
  struct Child {
    std::unique_ptr<Process> process;
    std::unique_ptr<Channel> channel;
    std::string log_path;
  };

  // Carries out what the core wants, and comes back when it is due. After every event.
  void Do();
  void Perform(const JobProcessesCore::Action& action);
  void ArmTimer();

  // Errors: Unavailable where another job has what this one needs.
  absl::Status ClaimAll();
  absl::Status StartAll();
  absl::Status StartChild(int child, int theirs);
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
  absl::Time timer_due_ = absl::InfiniteFuture();  // of the earliest timer that is armed
  OwnedTimers<EventLoop> timers_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_JOB_PROCESSES_H_
