#include "server/coordinator/jobs/job_reports.h"

#include <cstdint>
#include <vector>

#include "common/job/consistency.h"
#include "common/limits/limits.h"
#include "common/require.h"
#include "server/coordinator/jobs/job_scene.h"

namespace strata::server {

void JobReports::OnRankReport(const std::string& daemon, const proto::RankReport& report,
                              JobEntry* entry, absl::Time now) {
  const JobNode* node = entry->NodeOn(daemon);
  if (node == nullptr || entry->stage() != JobStage::kTraining) return;
  if (!node->ready) return;  // of processes that are about to be gone
  const uint32_t rank = report.rank();
  if (rank < node->first_rank || rank >= node->first_rank + node->ranks) return;
  announcer_->TellReport(entry->id(), report);
  announcer_->TellRecords(entry->metrics.Add(report, entry->ElapsedSeconds(now)), entry);
  announcer_->AddNews(entry->id());
}

void JobReports::OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                                JobEntry* entry, absl::Time now) {
  JobNode* node = entry->NodeOn(daemon);
  if (node == nullptr || activity.ranks_size() > static_cast<int>(node->ranks) ||
      activity.shards_size() > static_cast<int>(kShardsPerJobMax)) {
    return;
  }
  if (activity.has_steps_made()) node->steps_made = activity.steps_made();
  for (const proto::RankActivity& rank : activity.ranks()) {
    node->steps = std::max<uint64_t>(node->steps, rank.clock());
  }
  entry->waits.activity().OnNode(node->node, activity, StepsPerClock(entry->job()), now);
}

void JobReports::OnCounters(const std::string& daemon, const proto::JobCounters& counters,
                            JobEntry* entry, absl::Time now) {
  if (counters.nodes_size() > entry->stored.record().view().nodes_size()) return;
  // Only of shards that the placement gives this daemon.
  for (proto::JobShardStatus& shard : *entry->status().mutable_shards()) {
    if (shard.daemon() != daemon || shard.shard() != counters.shard()) continue;
    if (entry->running()) {
      entry->waits.activity().OnShard(daemon, counters.shard(), counters,
                                      StepsPerClock(entry->job()), now);
    }
    const bool changed =
        shard.counters().SerializeAsString() != counters.counters().SerializeAsString();
    if (!changed) return;
    *shard.mutable_counters() = counters.counters();
    // The last ones may come after the job's end.
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
    // An aggregator that has not spoken yet says nothing of its memory.
    if (activity.memory_bytes() > 0) node.set_memory_bytes(activity.memory_bytes());
    node.set_memory_limit_bytes(activity.memory_limit_bytes());
    if (activity.gpu_memory_bytes() > 0) node.set_gpu_memory_bytes(activity.gpu_memory_bytes());
    node.set_gpu_memory_limit_bytes(activity.gpu_memory_limit_bytes());
  }
}

void JobReports::UpdateWaits(JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->running());
  const bool had_waits = !entry->waits.list().empty();
  entry->waits.ObserveStage(entry->stage(), now);
  const std::vector<std::string> lines = entry->waits.Update(
      DescribeScene(*entry, *membership_, now), entry->stored.status(), timing_, now);
  // Followers see each wait grow, and that it is over.
  if (had_waits || !entry->waits.list().empty()) announcer_->AddNews(entry->id());
  for (const std::string& line : lines) announcer_->Warn(line);
}

}  // namespace strata::server
