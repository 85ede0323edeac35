#ifndef STRATA_WORKER_AGENT_JOB_PROCESSES_H_
#define STRATA_WORKER_AGENT_JOB_PROCESSES_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/process/channel.h"
#include "common/process/event_loop.h"
#include "common/process/process.h"
#include "common/unique_fd.h"
#include "proto/control.pb.h"
#include "worker/agent/node_life.h"
#include "worker/agent/node_watch.h"

namespace strata::worker {

// The processes of one job on this node, from StartNode until the last of them is gone.
//
// Threads: the event loop's. Its callbacks may not destroy it; on_gone may ask the loop to.
class JobProcesses {
 public:
  struct Options {
    std::string binary;         // executable of `strata rank` and `strata aggregator`
    std::string daemon;         // this worker's name
    std::string runs_dir;       // parent of run directories
    proto::ListenAt listen;     // of aggregators that all-reduce
    std::string device_plugin;  // for jobs on GPUs
    // From SIGTERM to SIGKILL.
    absl::Duration stop_grace = absl::Seconds(3);
    // After the first sign of failure, how long to collect others: the cause may show last.
    absl::Duration symptom_time = absl::Milliseconds(200);
    // For the end of a rank that the aggregator has lost, after that.
    absl::Duration cause_time = absl::Seconds(2);
    // For the aggregator once its ranks have ended, and for the final model's metrics to arrive.
    absl::Duration end_deadline = absl::Seconds(30);
    absl::Duration final_metrics_deadline = absl::Seconds(2);
    // For the run directory and GPUs while another job has them: one that is over for the
    // coordinator may still have processes that end. More than stop_grace.
    absl::Duration claim_deadline = absl::Seconds(5);
  };
  struct Callbacks {
    std::function<void(proto::DaemonMessage)> send;
    // Whether the node has the memory for the job: asked once its layout is known, and again with
    // the placement. May be null: it has.
    std::function<absl::Status(const proto::Layout&, const proto::Placement&)> admit = nullptr;
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
  // To the aggregator, any number of times; what it finds is sent as LinkMeasured, again for each.
  void Measure(const proto::MeasureLink& measure);
  // Ends all processes without further reports.
  void Stop();
  // Ends all processes and reports `reason`, if nothing was reported yet.
  void Fail(const std::string& reason);
  // One line for metrics.jsonl. Records come in the order of their steps; one that is not past the
  // last line is a repetition (after a restart the coordinator merges what it may not have seen).
  void Append(const proto::MetricsRecord& record);
  // Says NodeReady again, if it was said: the coordinator may have missed it.
  void RepeatReady();

  // What the node does now.
  proto::NodeActivity Activity() const;

  const std::string& run_dir() const { return run_dir_; }

 private:
  struct Child {
    std::unique_ptr<Process> process;
    std::unique_ptr<Channel> channel;
    std::string log_path;
  };

  bool has_aggregator() const;
  bool none_left() const;
  // Start, once this node's view of the job is known to be good. Comes again until `give_up` while
  // another job has what this one needs.
  void ClaimAndStart(absl::Time give_up);
  // Errors: Unavailable where that is so.
  absl::Status Claim();
  absl::Status StartAll();
  absl::Status StartChild(int child, int theirs);
  proto::Launch LaunchOf(int child) const;
  void WatchChannel(int child);
  void OnChannel(int child);
  void OnChildMessage(int child, const std::string& bytes);
  // False: the job does not fit, and has failed.
  bool Admit(const proto::Layout& layout, const proto::Placement& placement);
  void Tell(const proto::AgentMessage& message);
  void OnEnd(int child);
  void OnSymptom();
  void OnAllGone();
  void FinishWhenMeasured();
  void StopChildren();
  void Gone();
  // Posts a closure that runs only while this object lives.
  void After(absl::Duration delay, std::function<void()> closure);

  EventLoop* loop_;
  const Options options_;
  const proto::StartNode start_;
  const Callbacks callbacks_;
  proto::LogicalNode self_;
  std::string run_dir_;
  UniqueFd claim_;              // of the run directory; outlives children_
  std::vector<uint32_t> gpus_;  // by local rank
  std::string socket_name_;
  std::unique_ptr<NodeLife> life_;
  const RealClock clock_;
  std::unique_ptr<NodeWatch> watch_;
  std::vector<Child> children_;
  proto::NodeReady ready_;
  bool said_ready_ = false;
  bool told_to_measure_ = false;
  std::optional<proto::LinkMeasured> measured_;
  bool told_to_run_ = false;
  bool told_ = false;      // NodeFailed or NodeFinished was sent, or nobody wants to hear
  bool stopping_ = false;  // SIGTERM was sent
  bool collecting_ = false, collected_ = false;  // symptoms, for symptom_time
  bool final_reported_ = false;
  bool final_measured_ = false;
  uint64_t last_step_ = 0;           // of metrics.jsonl
  uint64_t last_measured_step_ = 0;  // of its late measurements
  bool gone_ = false;
  // Expires with this object; timers hold weak references to it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_JOB_PROCESSES_H_
