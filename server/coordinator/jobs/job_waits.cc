// The part of JobTable that knows who holds a running job up.

#include <algorithm>
#include <optional>
#include <string>

#include "common/job/consistency.h"
#include "common/limits/limits.h"
#include "server/coordinator/diagnosis/wait_diagnosis.h"
#include "server/coordinator/jobs/job_table.h"

namespace strata::server {
namespace {

// In steps.
std::optional<uint64_t> StalenessOf(const proto::Job& job) {
  const proto::Consistency& consistency = job.consistency();
  if (consistency.has_async()) return std::nullopt;
  return consistency.has_lazy() ? consistency.lazy().staleness() * StepsPerClock(job) : 0;
}

JobScene::Phase SceneOf(JobPhase phase) {
  switch (phase) {
    case JobPhase::kInstalling:
      return JobScene::Phase::kInstalling;
    case JobPhase::kTraining:
      return JobScene::Phase::kTraining;
    default:
      return JobScene::Phase::kStarting;
  }
}

}  // namespace

void JobTable::OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                              absl::Time now) {
  JobEntry* entry = Running(activity.job_id());
  const JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || activity.ranks_size() > static_cast<int>(node->ranks) ||
      activity.shards_size() > static_cast<int>(kShardsPerJobMax)) {
    return;
  }
  entry->activity.OnNode(node->node, activity, StepsPerClock(entry->job()), now);
}

// Of a daemon that has not come back since the coordinator's start nothing is known yet.
absl::Time JobTable::HeardAt(const std::string& daemon, absl::Time now) const {
  const Daemon* found = membership_->Find(daemon);
  return found == nullptr ? now : found->heard_at;
}

JobScene JobTable::SceneOf(const JobEntry& entry, absl::Time now) const {
  JobScene scene;
  scene.phase = server::SceneOf(entry.phase);
  scene.phase_since = entry.phase_since;
  scene.has_local_steps = HasLocalSteps(entry.job());
  scene.has_quorum = entry.job().consistency().lazy().has_quorum();
  scene.ranks_meet =
      entry.job().exchange() == proto::Job::NCCL || entry.job().node_sum() == proto::NodeSum::NCCL;
  scene.has_aggregators = entry.job().exchange() != proto::Job::NONE;
  scene.staleness = StalenessOf(entry.job());
  for (const JobNode& node : entry.nodes) {
    NodeScene& of = scene.nodes.emplace_back();
    of.node = node.node;
    of.daemon = node.daemon;
    of.finished = node.finished;
    of.ready = node.ready;
    of.heard_at = HeardAt(node.daemon, now);
    of.reported_step = entry.metrics.SlowestStep(node.first_rank, node.ranks);
    if (const JobActivity::OfNode* said = entry.activity.Node(node.node)) {
      of.activity = &said->activity;
      of.activity_at = said->at;
      of.lines_since = &said->lines_since;
    }
  }
  // The status lists them in the order of the placement.
  const proto::JobStatus& status = entry.stored.status();
  const proto::Placement& placement = entry.stored.record().placement();
  for (int s = 0; s < std::min(status.shards_size(), placement.shard_endpoints_size()); ++s) {
    ShardScene& of = scene.shards.emplace_back();
    of.daemon = status.shards(s).daemon();
    of.shard = status.shards(s).shard();
    of.address = placement.shard_endpoints(s);
    of.heard_at = HeardAt(of.daemon, now);
    for (const JobServer& server : entry.servers) {
      if (server.daemon == of.daemon) of.installed = server.installed;
    }
    if (const JobActivity::OfShard* said = entry.activity.Shard(of.daemon, of.shard)) {
      of.nodes = &said->nodes;
      of.nodes_at = said->at;
      of.nodes_since = &said->nodes_since;
      of.least_since = said->least_since;
    }
  }
  return scene;
}

void JobTable::UpdateWaits(JobEntry* entry, absl::Time now) {
  if (entry->phase_seen != entry->phase) {
    entry->phase_seen = entry->phase;
    entry->phase_since = now;
  }
  const bool had_waits = !entry->waits.empty();
  entry->waits = Diagnose(SceneOf(*entry, now), now, options_.diagnosis);
  // Followers see each wait grow, and that it is over.
  entry->has_news = entry->has_news || had_waits || !entry->waits.empty();
  for (const std::string& line :
       entry->stall_log.OnWaits(entry->stored.status(), entry->waits, now)) {
    actions_->Warn(line);
  }
}

}  // namespace strata::server
