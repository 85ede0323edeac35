// The part of JobEntry that makes entries: of jobs that are new, and of those that were stored.
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "common/job/consistency.h"
#include "common/job/exchange/views.h"
#include "common/require.h"
#include "server/coordinator/jobs/job_entry.h"

namespace strata::server {
namespace {

// A script's name says more than its interpreter's.
std::string ModelName(const proto::Job& job) {
  if (job.has_model()) return job.model().zoo();
  const proto::Program& program = job.program();
  const bool is_script = program.args_size() > 0 && absl::EndsWith(program.args(0), ".py");
  return is_script ? std::filesystem::path(program.args(0)).filename().string() : program.path();
}

// A program decides itself how many epochs it makes; the default says nothing of that.
uint32_t ShownEpochs(const proto::Job& job) {
  return job.has_program() && job.epochs() <= 1 ? 0 : job.epochs();
}

}  // namespace

JobEntry JobEntry::Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                             const std::string& resume_dir, absl::Time now) {
  JobEntry entry;
  entry.stored.mutable_resume()->set_dir(resume_dir);
  entry.stored.mutable_resume()->set_origin_dir(resume_dir);
  proto::JobRecord* record = entry.stored.mutable_record();
  record->set_job_id(id.value());
  record->set_token(token);
  record->set_cluster(cluster);
  *record->mutable_job() = job;
  proto::JobStatus& status = entry.status();
  status.set_job_id(id.value());
  status.set_name(job.name());
  status.set_state(proto::QUEUED);
  status.set_mode(ModeName(job.consistency()));
  status.set_model(ModelName(job));
  status.set_exchange(proto::Job::Exchange_Name(job.exchange()));
  status.set_ranks(job.ranks());
  status.set_submitted_ms(absl::ToUnixMillis(now));
  status.mutable_progress()->set_epochs(job.epochs());
  status.mutable_progress()->set_test_accuracy(-1);
  status.mutable_progress()->set_eta_s(-1);
  *status.mutable_job() = job;
  return entry;
}

JobEntry JobEntry::Restored(const proto::StoredJob& stored) {
  JobEntry entry;
  entry.stored = stored;
  const proto::JobState state = stored.status().state();
  if (state != proto::QUEUED) entry.stage_ = JobStage::kEnded;
  // Nobody completes what an ended job had under way.
  if (state != proto::QUEUED && state != proto::RUNNING)
    entry.status().mutable_checkpoints()->clear_writing_step();
  if (state != proto::RUNNING) return entry;
  if (stored.training() && stored.record().job().has_checkpoint()) {
    entry.BeginLedger();
    entry.ledger.TakeOver(entry.status().checkpoints());
    entry.has_missed_parts = true;
  }
  entry.stage_ = stored.training() ? JobStage::kTraining : JobStage::kStarting;
  const absl::StatusOr<Views> views = Views::Of(stored.record());
  STRATA_REQUIRE(views.ok());
  for (int i = 0; i < stored.status().nodes_size(); ++i) {
    entry.nodes.push_back(JobNode::Restored(stored, i));
    JobNode& node = entry.nodes.back();
    if (node.takes_part()) node.joined_at = views->JoinedAt(NodeId(node.node));
    const std::string& reason = stored.status().reason();
    const bool is_of_it = absl::StartsWith(reason, node.DescribeAlone());
    if (stored.training() && !node.ready && is_of_it) entry.replaces = reason;
  }
  for (int i = 0; i < stored.status().shards_size(); ++i) {
    const proto::JobShardStatus& shard = stored.status().shards(i);
    for (const std::string& daemon : {shard.daemon(), shard.backup(), shard.next_backup()}) {
      if (daemon.empty() || entry.ServerOn(daemon) != nullptr) continue;
      entry.servers.push_back({.daemon = daemon, .installed = true, .present = false});
    }
    if (!shard.daemon().empty()) entry.ServerOn(shard.daemon())->job_shards.push_back(i);
  }
  entry.GoOnWithChange();
  entry.metrics = entry.MakeMetrics();
  return entry;
}

// Nobody that has promised nothing may run before all servers have it.
void JobEntry::GoOnWithChange() {
  const auto& changes = stored.record().view_changes();
  if (!stored.training() || changes.empty()) return;
  const proto::ViewChange& newest = *changes.rbegin();
  const bool is_told = newest.number() <= stored.view_told();
  if (is_told || newest.at_clock() <= stored.record().resume().clock()) return;
  agreement.Install(newest, server_names());
}

// Ranks that are not there are not waited for.
MetricsMerge JobEntry::MakeMetrics() const {
  const proto::JobRecord& record = stored.record();
  uint32_t ranks = 0;
  for (const proto::LogicalNode& node : record.view().nodes()) ranks += node.ranks();
  MetricsMerge made(ranks, ShownEpochs(job()), record.samples_per_epoch(), stored.total_steps(),
                    record.resume().step());
  const absl::StatusOr<Views> views = Views::Of(record);
  STRATA_REQUIRE(views.ok());
  const uint64_t resumed = record.resume().clock();
  if (is_elastic() && resumed > 0) made.SetEarlier(views->RankStepsBefore(resumed));
  for (const proto::LogicalNode& node : record.view().nodes()) {
    const NodeId id(node.node());
    if (drops_lost() && stored.status().nodes(static_cast<int>(node.node())).absent()) {
      made.Drop(node.first_rank(), node.ranks());
      continue;
    }
    if (!views->HasEver(id)) made.Leave(node.first_rank(), node.ranks(), 0);
    const uint64_t joined = views->JoinedAt(id);
    if (joined > 0) made.Join(node.first_rank(), node.ranks(), joined);
    if (const auto leaves = views->LeavesAt(id); leaves && *leaves > views->first_clock()) {
      made.Leave(node.first_rank(), node.ranks(), *leaves);
    }
  }
  return made;
}

}  // namespace strata::server
