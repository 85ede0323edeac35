#include "compare/live/live_runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "compare/campaign/mode_list.h"
#include "compare/live/cluster_size.h"
#include "compare/live/report_log.h"

namespace strata::compare {
namespace {

// What the coordinator or the line to it says, where it is no matter of the job.
absl::Status Gone(const absl::Status& status) { return absl::UnavailableError(status.message()); }

// Of weights that were kept in the course of training, which is over.
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
  if (absl::IsDataLoss(record.status())) record = RunOnce(plan, progress);
  if (absl::IsDataLoss(record.status())) return Gone(record.status());
  return record;
}

absl::StatusOr<proto::RunRecord> LiveRunner::RunOnce(const RunPlan& plan,
                                                     const OnProgress& progress) {
  if (stopped_) return absl::CancelledError("stopped");
  // A job that no longer fits would wait for ever.
  if (const absl::Status status = Check(plan); !status.ok()) return Gone(status);
  proto::Job job = plan.job;
  if (!options_.jobs_dir.empty()) {
    job.set_run_dir(absl::StrCat(options_.jobs_dir, "/", RunName(plan.mode, plan.job.seed())));
  }
  if (job.has_checkpoint()) {
    // A run that is made again has a folder of its own, too.
    job.mutable_checkpoint()->set_dir(absl::StrCat(plan.job.checkpoint().dir(), "/",
                                                   RunName(plan.mode, plan.job.seed()), "-",
                                                   absl::ToUnixNanos(absl::Now())));
  }
  const absl::StatusOr<JobId> id = client_->Submit(job);
  if (!id.ok()) return absl::IsInvalidArgument(id.status()) ? id.status() : Gone(id.status());
  ReportLog log(plan);
  int measured = 0;
  const auto end = client_->Follow(*id, [&](const proto::FollowEvent& event) {
    if (event.has_status() && measured == 0) progress(MakeProgress(event.status()));
    if (!event.has_report()) return;
    log.Add(event.report());
    if (plan.job.has_program() || !IsLateMeasurement(event.report())) return;
    ++measured;
    progress({.done = 1, .text = absl::StrCat("measures accuracy, ", measured, " done")});
  });
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
    if (const absl::Status status = CheckDaemons(*end); !status.ok()) return status;
  }
  absl::StatusOr<proto::RunRecord> record = log.MakeRecord(*end);
  if (record.ok()) record->set_cluster(options_.cluster);
  return record;
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
