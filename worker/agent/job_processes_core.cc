#include "worker/agent/job_processes_core.h"

#include <signal.h>

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/ids.h"
#include "common/job/job.h"
#include "common/job/trace_log.h"
#include "common/os/message_bounds.h"
#include "common/require.h"

namespace strata::worker {
namespace {

bool IsPython(const proto::Job& job) {
  const auto is_script = [](const std::string& word) { return absl::EndsWith(word, ".py"); };
  const proto::Program& program = job.program();
  return absl::StrContains(program.path().substr(program.path().rfind('/') + 1), "python") ||
         is_script(program.path()) ||
         std::any_of(program.args().begin(), program.args().end(), is_script);
}

constexpr absl::Duration kClaimRetry = absl::Milliseconds(50);

std::string OneLine(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}});
}

proto::LogicalNode NodeIn(const proto::StartNode& start) {
  for (const proto::LogicalNode& node : start.record().view().nodes()) {
    if (node.node() == start.node()) return node;
  }
  return {};
}

bool HasAggregator(const proto::Job& job) { return job.exchange() != proto::Job::NONE; }

}  // namespace

JobProcessesCore::JobProcessesCore(std::string daemon, const proto::StartNode& start,
                                   std::string run_dir, JobDeadlines deadlines, Admit admit,
                                   absl::Time now)
    : daemon_(std::move(daemon)),
      job_id_(start.record().job_id()),
      attempt_(start.record().attempt()),
      node_(start.node()),
      incarnation_(start.incarnation()),
      job_(start.record().job()),
      run_dir_(std::move(run_dir)),
      deadlines_(deadlines),
      admit_(std::move(admit)),
      self_(NodeIn(start)),
      life_(daemon_, self_.node(), self_.first_rank(), static_cast<int>(self_.ranks()),
            HasAggregator(job_)),
      watch_(job_id_, self_, HasAggregator(job_), now) {}

bool JobProcessesCore::has_aggregator() const { return HasAggregator(job_); }

void JobProcessesCore::Enter(Phase phase, absl::Time due) {
  phase_ = phase;
  due_ = due;
}

std::string JobProcessesCore::OfNode(absl::string_view reason) const {
  return absl::StrCat("node ", node_, " (", daemon_, "): ", reason);
}

void JobProcessesCore::SendUnlessEnded(proto::DaemonMessage message) {
  if (!ended()) Send(std::move(message));
}

void JobProcessesCore::Start(absl::Time now) {
  if (self_.ranks() == 0) {
    return Fail(OfNode(absl::StrCat("node ", node_, " is not in the job's view")), now);
  }
  give_up_claim_ = now + deadlines_.claim_deadline;
  if (phase_ == Phase::kClaiming) actions_.push_back(Claim{});
}

void JobProcessesCore::OnClaimed(const absl::Status& status, absl::Time now) {
  STRATA_REQUIRE(phase_ == Phase::kClaiming);
  if (absl::IsUnavailable(status) && now < give_up_claim_) {
    return Enter(Phase::kClaiming, now + kClaimRetry);
  }
  if (!status.ok()) return Fail(OfNode(status.message()), now);
  Enter(Phase::kRunning, absl::InfiniteFuture());
  actions_.push_back(StartChildren{});
}

void JobProcessesCore::OnStarted() {
  STRATA_REQUIRE(phase_ == Phase::kRunning && running_ < life_.children());
  ++running_;
}

void JobProcessesCore::OnStartFailed(const absl::Status& status, absl::Time now) {
  Fail(OfNode(status.message()), now);
}

void JobProcessesCore::OnChildMessage(int child, const std::string& bytes, absl::Time now) {
  proto::ChildMessage message;
  if (!message.ParseFromString(bytes)) {
    return OnFailedLine(child, "sent a message that is not a ChildMessage", now);
  }
  FitProse(&message);
  if (const absl::Status bounded = CheckBounds(message); !bounded.ok()) {
    return OnFailedLine(child, absl::StrCat("sent too much: ", bounded.message()), now);
  }
  switch (message.message_case()) {
    case proto::ChildMessage::kReady:
      return OnReady(message.ready(), now);
    case proto::ChildMessage::kReport:
      return OnReport(message.report(), now);
    case proto::ChildMessage::kFailed:
      return OnFailedLine(child, OneLine(message.failed()), now, message.has_diverged());
    case proto::ChildMessage::kLost:
      if (!life_.is_aggregator(child)) return;
      life_.OnLostRank(message.lost().local_rank(), OneLine(message.lost().text()));
      return OnSymptom(now);
    case proto::ChildMessage::kMeasured:
      return OnMeasured(message.measured());
    case proto::ChildMessage::kActivity:
      if (life_.is_aggregator(child)) watch_.OnActivity(message.activity(), now);
      return;
    case proto::ChildMessage::kTrace:
      return OnTrace(child, message.trace());
    case proto::ChildMessage::kCheckpoint:
      return OnPart(message.checkpoint());
    case proto::ChildMessage::kDamaged:
      is_damaged_ = true;
      return OnFailedLine(child, OneLine(message.damaged()), now);
    case proto::ChildMessage::kViewPromised:
      if (life_.is_aggregator(child)) OnPromised(message.view_promised());
      return;
    case proto::ChildMessage::kRingStopped:
      if (life_.is_aggregator(child)) OnRingStopped(message.ring_stopped());
      return;
    case proto::ChildMessage::kRefusals:
      if (life_.is_aggregator(child)) watch_.OnRefusals(message.refusals());
      return;
    case proto::ChildMessage::MESSAGE_NOT_SET:
      return;
  }
}

void JobProcessesCore::OnReady(const proto::NodeReady& ready, absl::Time now) {
  if (!IsAdmitted(job_, ready.layout(), {}, now)) return;
  ready_ = ready;
  ready_->set_job_id(job_id_);
  ready_->set_attempt(attempt_);
  ready_->set_incarnation(incarnation_);
  ready_->set_run_dir(run_dir_);
  watch_.OnReady(now);
  RepeatReady();
}

void JobProcessesCore::RepeatReady() {
  if (!ready_) return;
  proto::DaemonMessage up;
  *up.mutable_node_ready() = *ready_;
  SendUnlessEnded(std::move(up));
}

void JobProcessesCore::OnReport(const proto::RankReport& report, absl::Time now) {
  if (report.final() && final_metrics_ == FinalMetrics::kNotReported) {
    final_metrics_ = FinalMetrics::kReported;
  }
  watch_.OnReport(report, now);
  proto::DaemonMessage up;
  *up.mutable_rank_report() = report;
  up.mutable_rank_report()->set_job_id(job_id_);
  up.mutable_rank_report()->set_attempt(attempt_);
  SendUnlessEnded(std::move(up));
}

void JobProcessesCore::OnMeasured(const proto::LinkMeasured& measured) {
  measured_ = measured;
  measured_->set_job_id(job_id_);
  measured_->set_attempt(attempt_);
  proto::DaemonMessage up;
  *up.mutable_link_measured() = *measured_;
  SendUnlessEnded(std::move(up));
}

// Even for a failed job: its trace shows what came before.
void JobProcessesCore::OnTrace(int child, const proto::TraceBatch& trace) {
  proto::DaemonMessage up;
  *up.mutable_trace() = trace;
  up.mutable_trace()->set_job_id(job_id_);
  up.mutable_trace()->set_process(life_.ProcessName(child));
  Send(std::move(up));
}

// Likewise: it is in the store.
void JobProcessesCore::OnPart(const proto::CheckpointPart& part) {
  proto::DaemonMessage up;
  *up.mutable_checkpoint_part() = part;
  up.mutable_checkpoint_part()->set_job_id(job_id_);
  Send(std::move(up));
}

void JobProcessesCore::OnPromised(const proto::ViewPromised& promised) {
  proto::DaemonMessage up;
  *up.mutable_view_promised() = promised;
  up.mutable_view_promised()->set_job_id(job_id_);
  up.mutable_view_promised()->set_attempt(attempt_);
  up.mutable_view_promised()->set_incarnation(incarnation_);
  SendUnlessEnded(std::move(up));
}

void JobProcessesCore::OnRingStopped(const proto::RingStopped& stopped) {
  proto::DaemonMessage up;
  *up.mutable_ring_stopped() = stopped;
  up.mutable_ring_stopped()->set_job_id(job_id_);
  up.mutable_ring_stopped()->set_attempt(attempt_);
  up.mutable_ring_stopped()->set_incarnation(incarnation_);
  SendUnlessEnded(std::move(up));
}

void JobProcessesCore::OnUnreadable(int child, const absl::Status& status, absl::Time now) {
  OnFailedLine(child,
               absl::StrCat("its messages to the worker daemon cannot be read: ", status.message()),
               now);
}

void JobProcessesCore::OnFailedLine(int child, const std::string& line, absl::Time now,
                                    bool has_diverged) {
  life_.OnFailedLine(child, line, has_diverged);
  OnSymptom(now);
}

void JobProcessesCore::OnExit(int child, const ExitStatus& status, const std::string& last_line,
                              absl::Time now) {
  STRATA_REQUIRE(running_ > 0);
  --running_;
  life_.OnExit(child, status, last_line);
  if (life_.failed()) OnSymptom(now);
  if (!ready_ && !life_.is_aggregator(child) && unjoined_due_ == absl::InfiniteFuture()) {
    unjoined_ = child;
    unjoined_due_ = now + deadlines_.unjoined_time;
  }
  if (life_.only_aggregator_left()) {
    // It may still have to write checkpoint objects.
    aggregator_due_ = now + deadlines_.end_deadline +
                      (job_.has_checkpoint() ? deadlines_.last_checkpoint : absl::ZeroDuration());
  }
  // The exit of a lost rank tells why the node has failed; if no child is left, that is all there
  // is to know.
  if (running_ == 0 && phase_ != Phase::kGone) OnAllGone(now);
}

void JobProcessesCore::OnSymptom(absl::Time now) {
  if (ended() || phase_ == Phase::kCollectingSymptoms) return;
  if (phase_ != Phase::kAwaitingCause) {
    return Enter(Phase::kCollectingSymptoms, now + deadlines_.symptom_time);
  }
  if (!life_.awaits_cause()) FailAsTheyDid(now);
}

void JobProcessesCore::OnAllGone(absl::Time now) {
  if (ended()) return BeGone();
  if (life_.failed()) return;  // the reason is known once the symptoms are collected
  if (!Leads() || final_metrics_ != FinalMetrics::kReported) return Finish();
  Enter(Phase::kAwaitingMetrics, now + deadlines_.final_metrics_deadline);
}

bool JobProcessesCore::Leads() const {
  if (!IsElastic(job_) || views_.number() == 0) return self_.first_rank() == 0;
  const std::vector<NodeId> nodes = views_.NodesAt(views_.newest_clock());
  return !nodes.empty() && nodes.front() == NodeId(node_);
}

void JobProcessesCore::OnFinalMetrics() {
  final_metrics_ = FinalMetrics::kWritten;
  if (phase_ == Phase::kAwaitingMetrics) Finish();
}

void JobProcessesCore::OnMetricsFailed(const absl::Status& status, absl::Time now) {
  Fail(OfNode(status.message()), now);
}

void JobProcessesCore::Finish() {
  STRATA_REQUIRE(!ended() && life_.finished());
  proto::DaemonMessage up;
  up.mutable_node_finished()->set_job_id(job_id_);
  up.mutable_node_finished()->set_attempt(attempt_);
  up.mutable_node_finished()->set_incarnation(incarnation_);
  if (const auto steps = watch_.steps_made()) up.mutable_node_finished()->set_steps_made(*steps);
  Send(std::move(up));
  BeGone();
}

void JobProcessesCore::Fail(const std::string& reason, absl::Time now, bool is_death,
                            bool has_diverged) {
  if (ended()) return;
  proto::DaemonMessage up;
  up.mutable_node_failed()->set_job_id(job_id_);
  up.mutable_node_failed()->set_attempt(attempt_);
  up.mutable_node_failed()->set_incarnation(incarnation_);
  up.mutable_node_failed()->set_reason(reason);
  up.mutable_node_failed()->set_is_damaged(is_damaged_);
  up.mutable_node_failed()->set_is_death(is_death);
  up.mutable_node_failed()->set_has_diverged(has_diverged);
  Send(std::move(up));
  End(now);
}

void JobProcessesCore::Stop(absl::Time now) {
  if (!ended()) End(now);
}

void JobProcessesCore::End(absl::Time now) {
  if (running_ == 0) return BeGone();
  Enter(Phase::kEnding, now + deadlines_.stop_grace);
  actions_.push_back(SignalChildren{SIGTERM});
}

void JobProcessesCore::BeGone() {
  STRATA_REQUIRE(phase_ != Phase::kGone && running_ == 0);
  Enter(Phase::kGone, absl::InfiniteFuture());
  aggregator_due_ = unjoined_due_ = absl::InfiniteFuture();
  if (IsTraced(job_)) {
    proto::DaemonMessage up;
    *up.mutable_trace() = TraceEnd(job_id_);
    Send(std::move(up));
  }
  actions_.push_back(ReportGone{});
}

bool JobProcessesCore::IsAdmitted(const proto::Job& job, const proto::Layout& layout,
                                  const proto::Placement& placement, absl::Time now) {
  const absl::Status admitted = admit_ ? admit_(job, layout, placement) : absl::OkStatus();
  if (!admitted.ok()) Fail(OfNode(admitted.message()), now);
  return admitted.ok();
}

void JobProcessesCore::Run(const proto::RunNode& run, absl::Time now) {
  if (told_to_run_) return;
  told_to_run_ = true;
  const proto::JobRecord& record = run.record();
  if (absl::StatusOr<Views> views = Views::Of(record); views.ok()) views_ = *std::move(views);
  if (!IsAdmitted(record.job(), record.layout(), record.placement(), now)) return;
  proto::AgentMessage message;
  *message.mutable_run() = run;
  actions_.push_back(SendDown{std::move(message)});
}

void JobProcessesCore::Measure(const proto::MeasureLink& measure) {
  if (measured_ && !ended()) {
    proto::DaemonMessage up;
    *up.mutable_link_measured() = *measured_;
    return Send(std::move(up));
  }
  if (told_to_measure_) return;
  told_to_measure_ = true;
  proto::AgentMessage message;
  *message.mutable_measure() = measure;
  actions_.push_back(SendDown{std::move(message)});
}

void JobProcessesCore::Tell(const proto::AgentMessage& message) {
  if (ended()) return;
  if (!told_to_run_) {
    if (!message.has_stop_ring()) return;
    proto::RingStopped stopped;
    stopped.set_node(node_);
    stopped.set_number(message.stop_ring().number());
    stopped.set_error(OfNode("does not train yet"));
    return OnRingStopped(stopped);
  }
  // The aggregator reports what is wrong with them.
  if (message.has_change_view()) views_.Add(message.change_view()).IgnoreError();
  if (message.has_form_ring()) views_.Add(message.form_ring().change()).IgnoreError();
  actions_.push_back(SendDown{message});
}

void JobProcessesCore::OnTime(absl::Time now) {
  if (now >= aggregator_due_) {
    aggregator_due_ = absl::InfiniteFuture();
    if (!life_.gone()) {
      Fail(absl::StrCat(life_.ChildName(static_cast<int>(self_.ranks())),
                        ": did not end after its ranks had"),
           now);
    }
  }
  if (now >= unjoined_due_) {
    unjoined_due_ = absl::InfiniteFuture();
    if (!life_.gone() && !life_.failed()) {
      // By far most often a script that was not adapted to Strata.
      Fail(absl::StrCat(
               life_.ChildName(unjoined_), ": ended without ",
               IsPython(job_) ? "calling DistributedOptimizer or Session, so it has not" : "having",
               " joined the job"),
           now);
    }
  }
  if (now < due_) return;
  due_ = absl::InfiniteFuture();
  switch (phase_) {
    case Phase::kClaiming:
      return actions_.push_back(Claim{});
    case Phase::kCollectingSymptoms:
      if (!life_.awaits_cause()) return FailAsTheyDid(now);
      return Enter(Phase::kAwaitingCause, now + deadlines_.cause_time);
    case Phase::kAwaitingCause:
      return FailAsTheyDid(now);
    case Phase::kAwaitingMetrics:
      return Finish();
    case Phase::kEnding:
      actions_.push_back(SignalChildren{SIGKILL});
      // A child's keeper may have been stopped: it is killed, too, the next time.
      return Enter(Phase::kEnding, now + deadlines_.stop_grace);
    case Phase::kRunning:
    case Phase::kGone:
      return;
  }
}

}  // namespace strata::worker
