#ifndef STRATA_WORKER_AGENT_JOB_PROCESSES_CORE_H_
#define STRATA_WORKER_AGENT_JOB_PROCESSES_CORE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/job/views.h"
#include "common/os/process.h"
#include "proto/control.pb.h"
#include "worker/agent/node_life.h"

namespace strata::worker {

// How long the daemon waits for the processes of a job on a node.
struct JobDeadlines {
  // Time from SIGTERM to SIGKILL.
  absl::Duration stop_grace = absl::Seconds(3);
  // After the first sign of failure, how long to collect others: the cause may show last.
  absl::Duration symptom_time = absl::Milliseconds(200);
  // Time after that for the exit of a rank that the aggregator has lost.
  absl::Duration cause_time = absl::Seconds(2);
  // Time for the aggregator once its ranks have ended, and for the final model's metrics to arrive.
  absl::Duration end_deadline = absl::Seconds(30);
  // Additional time if the job writes checkpoints: more than an aggregator waits for its store.
  absl::Duration last_checkpoint = absl::Seconds(150);
  // How long the other ranks may continue after a rank has exited normally without joining the job:
  // they wait for it.
  absl::Duration unjoined_time = absl::Seconds(3);
  absl::Duration final_metrics_deadline = absl::Seconds(2);
  // Time to get the run directory and GPUs while another job holds them: a job that is over for the
  // coordinator may still have processes that end. More than stop_grace.
  absl::Duration claim_deadline = absl::Seconds(5);
};

// The life cycle of one job's processes on this node, from StartNode until the last of them is
// gone. Pure: events in, actions out; no processes, sockets or clocks.
//
// The driver performs the actions of TakeActions after each event, in order, and calls OnTime at
// `due`. Times never go back. Threads: one.
class JobProcessesCore {
 public:
  // Claim the run directory and the GPUs, and call OnClaimed.
  struct Claim {};
  // Start all children, calling OnStarted for each, and OnStartFailed if one cannot be started.
  struct StartChildren {};
  // Messages to the coordinator.
  struct SendUp {
    proto::DaemonMessage message;
  };
  // Messages to the aggregator or, if the job has none, to the one rank.
  struct SendDown {
    proto::AgentMessage message;
  };
  // Signals to the process group of each child.
  struct SignalChildren {
    int signal;
  };
  // No child is left and the coordinator has been told the outcome; always the last action except
  // SendUp.
  struct ReportGone {};
  using Action = std::variant<Claim, StartChildren, SendUp, SendDown, SignalChildren, ReportGone>;

  // Returns whether the node has the memory for the job: called once its layout is known, and again
  // with the placement and the optimizer that its program has named. Null: it has.
  using Admit =
      std::function<absl::Status(const proto::Job&, const proto::Layout&, const proto::Placement&)>;

  JobProcessesCore(std::string daemon, const proto::StartNode& start, std::string run_dir,
                   JobDeadlines deadlines, Admit admit, absl::Time now);

  void Start(absl::Time now);
  // Unavailable: another job holds something that this one needs; it is claimed again until
  // claim_deadline.
  void OnClaimed(const absl::Status& status, absl::Time now);
  void OnStarted();
  void OnStartFailed(const absl::Status& status, absl::Time now);

  // A ChildMessage, serialized.
  void OnChildMessage(int child, const std::string& bytes, absl::Time now);
  // The child's messages can no longer be read.
  void OnUnreadable(int child, const absl::Status& status, absl::Time now);
  // A started child has exited, and all of its messages have been passed in. `last_line`: of its
  // log.
  void OnExit(int child, const ExitStatus& status, const std::string& last_line, absl::Time now);

  // Only the first call counts: the coordinator cannot know whether an earlier one came.
  void Run(const proto::RunNode& run, absl::Time now);
  // Any number of times; each result of the aggregator is sent as LinkMeasured.
  void Measure(const proto::MeasureLink& measure);
  // Passes a change (of shards' places or participants) to the running aggregator. Before Run its
  // record will contain the change; only a ring that must stop gets the answer that it cannot.
  void Tell(const proto::AgentMessage& message);
  // Repeats NodeReady, if it was sent: the coordinator may have missed it.
  void RepeatReady();
  void OnMetricsFailed(const absl::Status& status, absl::Time now);
  // The final model's metrics have been written.
  void OnFinalMetrics();
  // Ends all children without further reports.
  void Stop(absl::Time now);
  // Ends all children and reports `reason`, if nothing was reported yet; see NodeFailed.
  void Fail(const std::string& reason, absl::Time now, bool is_death = false,
            bool has_diverged = false);

  void OnTime(absl::Time now);
  // When OnTime has something to do; InfiniteFuture: never.
  absl::Time due() const { return std::min({due_, aggregator_due_, unjoined_due_}); }
  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }

  const proto::LogicalNode& self() const { return self_; }  // its ranks: 0 if not in the view
  bool has_aggregator() const;
  const NodeLife& life() const { return life_; }
  const NodeWatch& watch() const { return watch_; }
  uint32_t attempt() const { return attempt_; }
  uint32_t node() const { return node_; }
  uint32_t incarnation() const { return incarnation_; }

 private:
  // In this order, though some may be skipped. From kEnding on the coordinator knows the outcome,
  // or does not want to.
  enum class Phase {
    kClaiming,
    kRunning,
    kCollectingSymptoms,
    kAwaitingCause,    // the lost rank's end
    kAwaitingMetrics,  // all children exited normally; the final model is still to be measured
    kEnding,           // children were sent SIGTERM
    kGone,
  };
  enum class FinalMetrics { kNotReported, kReported, kWritten };

  bool ended() const { return phase_ >= Phase::kEnding; }
  void Enter(Phase phase, absl::Time due);
  // Words the reason for the node rather than one of its children.
  std::string OfNode(absl::string_view reason) const;
  // Returns false if the job does not fit, and has failed.
  bool IsAdmitted(const proto::Job& job, const proto::Layout& layout,
                  const proto::Placement& placement, absl::Time now);
  void OnReady(const proto::NodeReady& ready, absl::Time now);
  void OnReport(const proto::RankReport& report, absl::Time now);
  void OnMeasured(const proto::LinkMeasured& measured);
  void OnTrace(int child, const proto::TraceBatch& trace);
  void OnPart(const proto::CheckpointPart& part);
  // Returns whether it is the job's first node, which writes the job's metrics.
  bool Leads() const;
  void OnPromised(const proto::ViewPromised& promised);
  void OnRingStopped(const proto::RingStopped& stopped);
  // Fails with the reason that its children have given.
  void FailAsTheyDid(absl::Time now) {
    Fail(life_.Reason(), now, life_.is_death(), life_.has_diverged());
  }
  void OnFailedLine(int child, const std::string& line, absl::Time now, bool has_diverged = false);
  void OnSymptom(absl::Time now);
  void OnAllGone(absl::Time now);
  void Finish();
  void End(absl::Time now);
  void BeGone();
  void Send(proto::DaemonMessage message) { actions_.push_back(SendUp{std::move(message)}); }
  void SendUnlessEnded(proto::DaemonMessage message);

  const std::string daemon_;
  const uint32_t job_id_;
  const uint32_t attempt_;
  const uint32_t node_;
  const uint32_t incarnation_;
  const proto::Job job_;
  const std::string run_dir_;
  const JobDeadlines deadlines_;
  const Admit admit_;
  const proto::LogicalNode self_;
  NodeLife life_;
  NodeWatch watch_;

  Phase phase_ = Phase::kClaiming;
  absl::Time due_ = absl::InfiniteFuture();             // of the phase
  absl::Time aggregator_due_ = absl::InfiniteFuture();  // for its exit after its ranks'
  absl::Time unjoined_due_ = absl::InfiniteFuture();    // for the exit of all, after that of
  int unjoined_ = 0;                                    // this child, which had not joined the job
  absl::Time give_up_claim_;
  int running_ = 0;  // children
  std::optional<proto::NodeReady> ready_;
  bool told_to_measure_ = false;
  std::optional<proto::LinkMeasured> measured_;
  bool told_to_run_ = false;
  Views views_;              // views since then
  bool is_damaged_ = false;  // of the checkpoint that the job should resume from
  FinalMetrics final_metrics_ = FinalMetrics::kNotReported;
  std::vector<Action> actions_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_JOB_PROCESSES_CORE_H_
