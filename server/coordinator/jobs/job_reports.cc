#include "server/coordinator/jobs/job_reports.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/job/consistency.h"
#include "common/os/limits.h"
#include "common/require.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/wait_diagnosis.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

std::optional<uint64_t> StalenessInSteps(const proto::Job& job) {
  const proto::Consistency& consistency = job.consistency();
  if (consistency.has_async()) return std::nullopt;
  return consistency.has_lazy() ? consistency.lazy().staleness() * StepsPerClock(job) : 0;
}

JobScene::Phase ShownPhase(JobStage stage) {
  switch (stage) {
    case JobStage::kInstalling:
      return JobScene::Phase::kInstalling;
    case JobStage::kTraining:
      return JobScene::Phase::kTraining;
    default:
      return JobScene::Phase::kStarting;
  }
}

// A daemon that has not come back since the coordinator's start counts as heard at that start.
absl::Time HeardAt(const Membership& membership, const std::string& daemon, absl::Time now) {
  const Daemon* found = membership.Find(daemon);
  return found == nullptr ? now : found->heard_at;
}

NodeScene DescribeNode(const JobEntry& entry, const JobNode& node, absl::Time heard_at) {
  NodeScene scene;
  scene.node = node.node();
  scene.daemon = node.daemon();
  scene.finished = node.finished();
  scene.ready = node.ready();
  scene.heard_at = heard_at;
  scene.reported_step = entry.metrics().SlowestStep(node.first_rank(), node.ranks());
  if (node.incarnation() == 1) scene.first_step = entry.stored().record().resume().step();
  if (node.joined_at() > 0) scene.first_step = node.joined_at();
  if (const JobActivity::NodeReport* said = entry.waits().activity().Node(node.node())) {
    scene.activity = &said->activity;
    scene.activity_at = said->at;
    scene.lines_since = &said->lines_since;
    if (said->activity.has_rejoined_step()) scene.first_step = said->activity.rejoined_step();
  }
  return scene;
}

ShardScene DescribeShard(const JobEntry& entry, const proto::JobShardStatus& shard,
                         const std::string& address, absl::Time heard_at) {
  ShardScene scene;
  scene.daemon = shard.daemon();
  scene.shard = shard.shard();
  scene.address = address;
  scene.heard_at = heard_at;
  for (const JobServer& server : entry.servers()) {
    if (server.daemon == scene.daemon) scene.installed = server.installed;
  }
  if (const JobActivity::ShardReport* said =
          entry.waits().activity().Shard(scene.daemon, scene.shard)) {
    scene.nodes = &said->nodes;
    scene.nodes_at = said->at;
    scene.nodes_since = &said->nodes_since;
    scene.least_since = said->least_since;
  }
  return scene;
}

// Describes a running job for the diagnosis of its waits, which points into `entry`. REQUIRES:
// entry.running().
JobScene DescribeScene(const JobEntry& entry, const Membership& membership, absl::Time now) {
  STRATA_REQUIRE(entry.running());
  JobScene scene;
  scene.phase = ShownPhase(entry.stage());
  scene.phase_since = entry.waits().stage_since();
  scene.has_local_steps = NodesMakeLocalSteps(entry.job());
  scene.has_quorum = entry.job().consistency().lazy().has_quorum();
  scene.ranks_meet =
      entry.job().exchange() == proto::Job::NCCL || entry.job().node_sum() == proto::NodeSum::NCCL;
  scene.has_aggregators = entry.job().exchange() != proto::Job::NONE;
  scene.staleness = StalenessInSteps(entry.job());
  scene.first_step = entry.stored().record().resume().step();
  scene.training_since = absl::FromUnixMillis(entry.stored().training_began_ms());
  if (entry.job().has_replace()) {
    scene.hang_after = absl::Seconds(entry.job().replace().hang_after_s());
  }
  scene.forms_ring = entry.ring().is_asking();
  if (entry.agreement().is_installing()) {
    scene.changing_since = entry.agreement().since();
    for (const std::string& server : entry.agreement().uninstalled()) {
      scene.changing.push_back({server, HeardAt(membership, server, now)});
    }
  }
  for (const JobNode& node : entry.nodes()) {
    if (!node.takes_part()) continue;
    scene.all_nodes_train = scene.all_nodes_train && (node.ready() || node.finished());
    if (node.waits_for_worker()) continue;  // the job's reason says so
    scene.nodes.push_back(DescribeNode(entry, node, HeardAt(membership, node.daemon(), now)));
  }
  // The status lists them in the order of the placement.
  const proto::JobStatus& status = entry.stored().status();
  const proto::Placement& placement = entry.stored().record().placement();
  for (int s = 0; s < std::min(status.shards_size(), placement.shard_endpoints_size()); ++s) {
    const proto::JobShardStatus& shard = status.shards(s);
    scene.shards.push_back(DescribeShard(entry, shard, placement.shard_endpoints(s),
                                         HeardAt(membership, shard.daemon(), now)));
  }
  return scene;
}

}  // namespace

void JobReports::OnRankReport(const std::string& daemon, const proto::RankReport& report,
                              JobEntry* entry, absl::Time now) {
  const JobNode* node = entry->NodeOn(daemon);
  if (node == nullptr || entry->stage() != JobStage::kTraining) return;
  if (!node->ready()) return;  // from processes that are about to exit
  const uint32_t rank = report.rank();
  if (rank < node->first_rank() || rank >= node->first_rank() + node->ranks()) return;
  announcer_->TellReport(entry->id(), report);
  announcer_->TellRecords(entry->metrics().Add(report, entry->ElapsedSeconds(now)), entry);
  announcer_->AddNews(entry->id());
}

void JobReports::OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                                JobEntry* entry, absl::Time now) {
  JobNode* node = entry->NodeOn(daemon);
  if (node == nullptr || activity.ranks_size() > static_cast<int>(node->ranks()) ||
      activity.shards_size() > static_cast<int>(kShardsPerJobMax)) {
    return;
  }
  if (activity.has_steps_made()) node->SetStepsMade(activity.steps_made());
  for (const proto::RankActivity& rank : activity.ranks()) node->ObserveStep(rank.clock());
  entry->waits().activity().OnNode(node->node(), activity, StepsPerClock(entry->job()), now);
}

void JobReports::OnCounters(const std::string& daemon, const proto::JobCounters& counters,
                            JobEntry* entry, absl::Time now) {
  if (counters.nodes_size() > entry->stored().record().view().nodes_size()) return;
  // Only shards that the placement gives this daemon.
  for (proto::JobShardStatus& shard : *entry->status().mutable_shards()) {
    if (shard.daemon() != daemon || shard.shard() != counters.shard()) continue;
    if (entry->running()) {
      entry->waits().activity().OnShard(daemon, counters.shard(), counters,
                                        StepsPerClock(entry->job()), now);
    }
    const bool changed =
        shard.counters().SerializeAsString() != counters.counters().SerializeAsString();
    if (!changed) return;
    *shard.mutable_counters() = counters.counters();
    // The last reports may come after the job's end.
    if (entry->ended()) announcer_->Save(*entry).IgnoreError();  // repeated
  }
}

void JobReports::OnShardMemory(const std::string& daemon, const proto::JobCounters& counters,
                               JobEntry* entry) {
  for (proto::JobShardStatus& shard : *entry->status().mutable_shards()) {
    if (shard.daemon() != daemon || shard.shard() != counters.shard()) continue;
    shard.set_memory_bytes(counters.memory_bytes());
    shard.set_memory_limit_bytes(counters.memory_limit_bytes());
  }
}

void JobReports::OnNodeMemory(const std::string& daemon, const proto::NodeActivity& activity,
                              JobEntry* entry) {
  for (proto::JobNodeStatus& node : *entry->status().mutable_nodes()) {
    if (node.daemon() != daemon || node.node() != activity.node()) continue;
    // An aggregator that has not reported yet says nothing about its memory.
    if (activity.memory_bytes() > 0) node.set_memory_bytes(activity.memory_bytes());
    node.set_memory_limit_bytes(activity.memory_limit_bytes());
    if (activity.gpu_memory_bytes() > 0) node.set_gpu_memory_bytes(activity.gpu_memory_bytes());
    node.set_gpu_memory_limit_bytes(activity.gpu_memory_limit_bytes());
  }
}

void JobReports::UpdateWaits(JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->running());
  const bool had_waits = !entry->waits().list().empty();
  entry->waits().ObserveStage(entry->stage(), now);
  const std::vector<std::string> lines = entry->waits().Update(
      DescribeScene(*entry, *membership_, now), entry->stored().status(), timing_, now);
  // Followers see each wait grow, and end.
  if (had_waits || !entry->waits().list().empty()) announcer_->AddNews(entry->id());
  for (const std::string& line : lines) announcer_->Warn(line);
}

}  // namespace strata::server
