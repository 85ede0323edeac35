#include "compare/campaign/live_runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/job/consistency.h"
#include "common/job/program_optimizer.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/campaign/cluster_size.h"
#include "compare/campaign/run_log.h"

namespace strata::compare {
namespace {

// An error of the coordinator, or of the connection to it, that the job did not cause.
absl::Status Gone(const absl::Status& status) { return absl::UnavailableError(status.message()); }

// True for a measurement, after training, of weights that were kept during it.
bool IsLateMeasurement(const proto::RankReport& report) {
  return report.has_test_accuracy() && report.first_step() == report.end_step();
}

RunProgress MakeProgress(const proto::JobStatus& status) {
  RunProgress progress;
  const proto::Progress& at = status.progress();
  if (status.state() == proto::QUEUED) {
    progress.text = absl::StrCat("queued", status.reason().empty() ? "" : ": ", status.reason());
    return progress;
  }
  if (at.step() == 0) return progress;
  progress.text = absl::StrFormat("step %d/%d  loss %.4f", at.step(), at.total_steps(), at.loss());
  if (at.total_steps() > 0) {
    progress.done =
        std::min(1.0, static_cast<double>(at.step()) / static_cast<double>(at.total_steps()));
  }
  return progress;
}

// Why no run can go on from that one; empty: one can, as far as its record says.
std::string WhyNotFrom(const proto::RunRecord& earlier) {
  if (!earlier.failure().empty()) return "the run before it has failed";
  return earlier.checkpoint_dir().empty() ? "the run before it kept no checkpoint" : "";
}

// Why the job did not go on, with what is wrong with checkpoints that are there.
std::string WhyRefused(const proto::JobStatus& status) {
  const auto& passed_over = status.checkpoints().passed_over();
  if (passed_over.empty()) return status.reason();
  return absl::StrCat(status.reason(), "; passed over: ", absl::StrJoin(passed_over, "; "));
}

}  // namespace

LiveRunner::LiveRunner(Options options, std::unique_ptr<control::CoordinatorClient> client)
    : options_(std::move(options)), client_(std::move(client)) {}

absl::Status LiveRunner::Check(const RunPlan& plan) {
  const absl::StatusOr<proto::ListNodesReply> nodes = client_->ListNodes();
  if (!nodes.ok()) return Gone(nodes.status());
  const absl::Status status = CheckFits(plan.job, MeasureCluster(*nodes));
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("mode ", plan.mode, ": ", status.message()));
}

absl::StatusOr<proto::RunRecord> LiveRunner::Run(const RunPlan& plan, const OnProgress& progress) {
  absl::StatusOr<proto::RunRecord> record = RunOnce(plan, progress);
  if (absl::IsDataLoss(record.status())) {
    RunPlan again = plan;
    if (plan.chain.was_interrupted) again.chain.earlier = nullptr;  // it knows too little
    record = RunOnce(again, progress);
  }
  if (absl::IsDataLoss(record.status())) return Gone(record.status());
  return record;
}

absl::StatusOr<proto::RunRecord> LiveRunner::RunOnce(const RunPlan& plan,
                                                     const OnProgress& progress) {
  proto::Job job = JobOf(plan);
  const proto::RunRecord* earlier = plan.chain.earlier.get();
  std::string began_anew = earlier == nullptr ? "" : WhyNotFrom(*earlier);
  bool goes_on = earlier != nullptr && began_anew.empty();
  if (goes_on && plan.chain.was_interrupted) {
    job.mutable_checkpoint()->set_dir(earlier->checkpoint_dir());
  }
  absl::StatusOr<Ended> ended = RunJob(plan, job, goes_on ? plan.chain.earlier : nullptr, progress);
  if (!ended.ok()) return ended.status();
  if (goes_on && ended->status.state() == proto::FAILED && !ended->log.has_begun()) {
    goes_on = false;
    began_anew = WhyRefused(ended->status);
    job = JobOf(plan);
    ended = RunJob(plan, job, nullptr, progress);
    if (!ended.ok()) return ended.status();
  }
  if (plan.chain.is_gone_on_from && ended->status.state() == proto::FINISHED) {
    control::AwaitLastCheckpoint(client_.get(), ended->status, options_.checkpoint_wait,
                                 [this] { return !stopped_; });
  }
  absl::StatusOr<proto::RunRecord> record = ended->log.MakeRecord(ended->status);
  if (!record.ok()) return record;
  record->set_cluster(options_.cluster);
  record->set_checkpoint_dir(job.checkpoint().dir());
  record->set_began_anew(began_anew);
  return record;
}

proto::Job LiveRunner::JobOf(const RunPlan& plan) const {
  proto::Job job = plan.job;
  const std::string name = RunName(plan.mode, plan.job.seed());
  if (!options_.jobs_dir.empty()) job.set_run_dir(absl::StrCat(options_.jobs_dir, "/", name));
  if (!job.has_checkpoint() && !plan.chain.checkpoint.dir().empty()) {
    *job.mutable_checkpoint() = plan.chain.checkpoint;
  }
  if (job.has_checkpoint()) {
    // A repeated run also has its own folder.
    job.mutable_checkpoint()->set_dir(
        absl::StrCat(job.checkpoint().dir(), "/", name, "-", absl::ToUnixNanos(absl::Now())));
  }
  return job;
}

absl::StatusOr<LiveRunner::Ended> LiveRunner::RunJob(const RunPlan& plan, const proto::Job& job,
                                                     std::shared_ptr<const proto::RunRecord> from,
                                                     const OnProgress& progress) {
  if (stopped_) return absl::CancelledError("stopped");
  // A job that no longer fits would wait for ever.
  if (const absl::Status status = Check(plan); !status.ok()) return Gone(status);
  proto::ResumeFrom resume;
  if (from != nullptr) resume.set_dir(from->checkpoint_dir());
  const absl::StatusOr<JobId> id = client_->Submit(job, resume);
  if (!id.ok()) return absl::IsInvalidArgument(id.status()) ? id.status() : Gone(id.status());
  RunLog log(plan, std::move(from));
  const auto keep = [&] {
    if (plan.chain.keep == nullptr) return;
    absl::StatusOr<proto::RunRecord> so_far = log.SoFar();
    if (!so_far.ok() || so_far->steps() == 0) return;
    so_far->set_checkpoint_dir(job.checkpoint().dir());
    plan.chain.keep(*so_far);
  };
  uint32_t complete = 0;  // checkpoints
  int measured = 0;
  const auto end = client_->Follow(*id, [&](const proto::FollowEvent& event) {
    if (event.has_status()) {
      const proto::JobStatus& status = event.status();
      log.Add(status);
      if (status.checkpoints().complete() > complete) keep();
      complete = status.checkpoints().complete();
      if (measured == 0) progress(MakeProgress(status));
    }
    if (!event.has_report()) return;
    log.Add(event.report());
    if (plan.job.has_program() || !IsLateMeasurement(event.report())) return;
    ++measured;
    progress({.done = 1, .text = absl::StrCat("measures accuracy, ", measured, " done")});
  });
  if (stopped_ || !end.ok()) keep();
  if (stopped_) {
    if (options_.cancels) client_->Cancel(*id).IgnoreError();
    return absl::CancelledError("stopped");
  }
  if (!end.ok()) return Gone(end.status());
  if (end->state() == proto::CANCELLED) {
    return absl::UnavailableError(absl::StrCat("job ", id->value(), " was cancelled",
                                               end->reason().empty() ? "" : ": ", end->reason()));
  }
  if (end->state() != proto::FINISHED) {
    // No value of that field makes a difference: what its runs say would be no comparison.
    if (SaysProgramDecides(end->reason())) {
      return absl::InvalidArgumentError(absl::StrCat("mode ", plan.mode, ": ", end->reason()));
    }
    if (const absl::Status status = CheckDaemons(*end); !status.ok()) return status;
  }
  return Ended{*end, std::move(log)};
}

absl::Status LiveRunner::CheckDaemons(const proto::JobStatus& end) {
  std::set<std::string> needed;
  for (const proto::JobNodeStatus& node : end.nodes()) needed.insert(node.daemon());
  for (const proto::JobShardStatus& shard : end.shards()) needed.insert(shard.daemon());
  const absl::StatusOr<proto::ListNodesReply> nodes = client_->ListNodes();
  if (!nodes.ok()) return Gone(nodes.status());
  for (const proto::DaemonStatus& daemon : nodes->daemons()) {
    if (daemon.alive()) needed.erase(daemon.name());
  }
  return needed.empty() ? absl::OkStatus() : absl::UnavailableError(end.reason());
}

void LiveRunner::Stop() {
  stopped_ = true;
  client_->StopFollowing();
}

}  // namespace strata::compare
