#ifndef STRATA_WORKER_AGENT_AGENT_H_
#define STRATA_WORKER_AGENT_AGENT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/control/credentials.h"
#include "common/control/logs_offer.h"
#include "common/control/send_trace.h"
#include "common/control/session.h"
#include "common/os/descriptors.h"
#include "common/os/event_loop.h"
#include "common/os/interfaces.h"
#include "common/os/limits.h"
#include "common/os/memory_ledger.h"
#include "common/os/stop_request.h"
#include "common/transport/endpoint.h"
#include "proto/control.pb.h"
#include "worker/agent/job_processes.h"
#include "worker/agent/metrics_log.h"
#include "worker/agent/node_gpus.h"
#include "worker/agent/peer_prober.h"
#include "worker/agent/run_folders.h"
#include "worker/agent/user_logs.h"

namespace strata::worker {

struct AgentOptions {
  std::string coordinator;            // HOST:PORT, unix:/PATH
  control::Credentials credentials;   // with a HOST:PORT
  std::string name;                   // unique in the cluster
  std::string address = "127.0.0.1";  // host name at which peers reach this node
  std::string listen;                 // address that aggregators bind to; empty: `address`
  net::HostLink link;                 // of the host, for placements
  // Ports for aggregators that all-reduce, one per job at a time; 0: any free ones.
  uint32_t peer_port = 0;
  uint32_t peer_port_last = 0;  // last port of the range; 0: only peer_port
  uint32_t slots = 1;           // ranks that may run here at once; 1 to 1024
  bool stands_in = false;       // takes only nodes that died elsewhere, if no other worker has room
  // The GPUs by ascending index, the ranks per GPU at once, and device::LoadPlugin's argument for
  // the ranks, valid in any directory.
  std::vector<proto::Gpu> gpus;
  uint32_t ranks_per_gpu = 1;
  std::string device_plugin;
  std::string runs_dir = "strata-runs";   // parent of run directories
  bool shares_runs = false;               // others may read them, as far as the umask permits
  std::string binary = "/proc/self/exe";  // executable of `strata rank` and so on
  WorkerLimits limits;
  // Limits that determine the number of descriptors: a node's connections to shards, logs that are
  // read at once.
  uint32_t shards_max = kConnectionsPerNodeMax;
  uint32_t open_logs_max = kOpenLogsMax;
  absl::Duration connect_deadline = absl::Seconds(30);
  absl::Duration reconnect_deadline = absl::Seconds(60);
  // Signals passed on to all ranks here; outlives the agent. Null: none.
  PassedSignals* passed_signals = nullptr;

  // Errors: InvalidArgument naming the option.
  absl::Status Validate() const;
};

// The worker daemon. One control loop owns all jobs; the session to the coordinator posts to it.
//
// Threads: Start and Stop from one thread; `on_lost` is called from the loop's.
class Agent {
 public:
  // `on_lost`: the coordinator has refused this daemon or is unreachable for good; one line for the
  // user. Jobs have been ended; call Stop. Errors: InvalidArgument.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(
      AgentOptions options, std::function<void(const absl::Status&)> on_lost);
  ~Agent();

  // Blocks until registered. Errors: ResourceExhausted (fewer file descriptors than the slots
  // require, naming both), and see control::Session::Start.
  absl::Status Start();
  // Tells the coordinator that this daemon stops soon: it gets nothing new, and its nodes leave
  // jobs that permit it. REQUIRES: Start has succeeded.
  void Leave();
  // Returns whether no job has processes here.
  bool is_idle();
  // Ends all jobs (each is reported as failed), waits for their processes and signs off.
  // Idempotent.
  void Stop();

 private:
  Agent(AgentOptions options, std::function<void(const absl::Status&)> on_lost);

  void OnMessage(const proto::CoordinatorMessage& message);
  void StartNode(const proto::StartNode& start);
  // Returns the job of the message's attempt. Null: it is not here.
  template <typename Message>
  JobProcesses* FindJob(const Message& message) {
    const auto found = jobs_.find(message.job_id());
    const bool is_here = found != jobs_.end() && found->second->attempt() == message.attempt();
    return is_here ? found->second.get() : nullptr;
  }
  // Passes `message` as `down` to the processes that it is about, if they are here.
  template <typename Message>
  void Tell(const Message& message, const proto::AgentMessage& down) {
    if (JobProcesses* job = FindJob(message)) job->Tell(down);
  }
  void StopNode(uint32_t job);
  void PassSignalsOn();
  proto::Register Registration() const;
  void Append(const proto::JobMetrics& metrics);
  void EndJobs(const std::string& reason, std::function<void()> then);
  // Polls the jobs' activity, and again later as long as there are any.
  void Look();
  proto::Heartbeat Heartbeat();
  void Forget(uint32_t job);
  absl::Status Admit(const proto::StartNode& start, const proto::Job& job,
                     const proto::Layout& layout, const proto::Placement& placement);

  const AgentOptions options_;
  const std::function<void(const absl::Status&)> on_lost_;
  const RealClock clock_;
  EventLoop loop_;
  std::thread thread_;
  RunFolders run_folders_;
  UserLogs user_logs_;
  std::unique_ptr<control::LogsOffer> logs_offer_;  // the session gives it its connections
  std::unique_ptr<control::Session> session_;
  std::unique_ptr<PeerProber> prober_;

  // Owned by the loop.
  std::map<uint32_t, std::unique_ptr<JobProcesses>> jobs_;
  // Former processes of ended jobs, whose last metrics may come later. Newest last.
  struct Ended {
    uint32_t job = 0;
    NodeProcesses processes;
    MetricsLog metrics;
  };
  std::deque<Ended> ended_;
  // By job: later processes, which start once the previous ones are gone.
  std::map<uint32_t, proto::StartNode> next_;
  MemoryLedger memory_;
  GpuSlots gpu_slots_;
  GpuLedger gpu_memory_;
  control::TraceSender trace_sender_;
  bool ending_ = false;
  transport::Refusals refusals_ended_;  // of ended jobs
  bool looking_ = false;
  std::function<void()> when_ended_;

  absl::Mutex mutex_;
  std::vector<uint32_t> running_ ABSL_GUARDED_BY(mutex_);
  std::vector<proto::NodeActivity> activities_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_at_ ABSL_GUARDED_BY(mutex_);
  transport::Refusals refusals_ ABSL_GUARDED_BY(mutex_);  // of all jobs so far
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_AGENT_H_
