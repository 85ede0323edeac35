#include "server/coordinator/jobs/job_entry.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/exchange/own_shards.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"
#include "server/coordinator/checkpoints/go_on.h"
#include "server/coordinator/jobs/node_agreement.h"
#include "server/coordinator/jobs/views/view_layout.h"

namespace strata::server {
namespace {

// Returns the clock of a finished job's last checkpoint; 0: there is none, or it is not known.
uint64_t LastCheckpoint(const JobEntry& entry) {
  const uint64_t every = ClocksPerCheckpoint(entry.job());
  if (every == 0 || entry.has_missed_parts || entry.nodes.empty()) return 0;
  const JobNode& leader = entry.leader();
  if (!leader.steps_made) return 0;
  const uint64_t clocks = *leader.steps_made / StepsPerClock(entry.job());
  const uint64_t last = clocks / every * every;
  return last > entry.stored.record().resume().clock() ? last : 0;
}

}  // namespace

bool JobEntry::all_ready() const {
  return std::all_of(nodes.begin(), nodes.end(),
                     [](const JobNode& node) { return node.ready || node.absent; });
}

JobNode* JobEntry::NodeOn(const std::string& daemon) {
  const auto it = std::find_if(nodes.begin(), nodes.end(),
                               [&](const JobNode& node) { return node.daemon == daemon; });
  return it == nodes.end() ? nullptr : &*it;
}

JobServer* JobEntry::ServerOn(const std::string& daemon) {
  const auto it = std::find_if(servers.begin(), servers.end(),
                               [&](const JobServer& server) { return server.daemon == daemon; });
  return it == servers.end() ? nullptr : &*it;
}

std::set<std::string> JobEntry::server_names() const {
  std::set<std::string> names;
  for (const JobServer& server : servers) names.insert(server.daemon);
  return names;
}

const JobNode& JobEntry::leader() const {
  STRATA_REQUIRE(!nodes.empty());
  const auto first = std::find_if(nodes.begin(), nodes.end(),
                                  [](const JobNode& node) { return node.takes_part(); });
  return first == nodes.end() ? nodes.front() : *first;
}

uint32_t JobEntry::held_ranks() const {
  if (!is_elastic() || !running()) return job().ranks();
  uint32_t ranks = 0;
  for (const JobNode& node : nodes) {
    if (!node.absent) ranks += node.ranks;
  }
  return ranks;
}

void JobEntry::SetView(const std::vector<RankBlock>& blocks) {
  STRATA_REQUIRE(queued() && !blocks.empty());
  stored.set_protocol_version(blocks.front().protocol);
  LayOutNodes(blocks, stored.resume().from(), stored.mutable_record());
  stored.set_view_proposed(HighestViewNumber(stored.record()));
  stored.set_view_told(stored.view_proposed());
  nodes.clear();
  stored.clear_nodes();
  stored.clear_node_finished();
  status().clear_nodes();
  status().set_ranks(0);
  for (const proto::LogicalNode& logical : stored.record().view().nodes()) {
    JobNode node;
    node.node = nodes.size();
    node.first_rank = logical.first_rank();
    node.ranks = logical.ranks();
    node.absent = nodes.size() >= blocks.size();
    node.finished = node.absent;
    if (!node.absent) node.daemon = blocks[nodes.size()].daemon;
    if (!node.absent) status().set_ranks(status().ranks() + node.ranks);
    proto::JobNodeStatus* shown = status().add_nodes();
    shown->set_node(node.node);
    shown->set_daemon(node.daemon);
    shown->set_first_rank(node.first_rank);
    shown->set_ranks(node.ranks);
    shown->set_incarnation(node.incarnation);
    shown->set_absent(node.absent);
    stored.add_node_finished(node.finished);
    nodes.push_back(std::move(node));
  }
}

void JobEntry::StoreNode(const JobNode& node) {
  const int index = static_cast<int>(node.node);
  proto::JobNodeStatus* shown = status().mutable_nodes(index);
  // Whose it was last: that one may still speak of it.
  if (!node.absent) shown->set_daemon(node.daemon);
  shown->set_incarnation(node.incarnation);
  shown->set_absent(node.absent);
  shown->set_joins(node.joins);
  shown->clear_leaves_at();
  if (node.leaves_at) shown->set_leaves_at(*node.leaves_at);
  stored.set_node_finished(index, node.finished);
  while (stored.nodes_size() < status().nodes_size()) stored.add_nodes()->set_is_told_to_run(true);
  proto::StoredNode* kept = stored.mutable_nodes(index);
  kept->set_is_told_to_run(node.ready);
  if (node.died_at_step) kept->set_died_at_step(*node.died_at_step);
  kept->set_dropped(node.dropped);
  kept->set_takes_last(node.takes_last);
}

void JobEntry::MakeAbsent(JobNode* node) {
  ++node->incarnation;
  node->absent = node->finished = node->present = true;
  node->joins = node->ready = node->replaced = node->waits_to_run = false;
  node->joined_at = node->steps = 0;
  node->leaves_at.reset();
  node->steps_made.reset();
  node->died_at_step.reset();
  node->info.Clear();
  node->missing_since = absl::InfiniteFuture();
  node->daemon.clear();
  waits.activity().ForgetNode(node->node);
  StoreNode(*node);
}

void JobEntry::ShowChange(const proto::ViewChange& change, uint32_t ranks,
                          const std::string& reason, absl::Time now) {
  constexpr int kShownMax = 100;
  auto* const all = status().mutable_nodes_changes();
  if (all->size() >= kShownMax) all->DeleteSubrange(0, all->size() - kShownMax + 1);
  proto::NodesChange* const shown = all->Add();
  shown->set_decided_ms(absl::ToUnixMillis(now));
  shown->set_step(change.at_clock());
  *shown->mutable_joined() = change.joined();
  *shown->mutable_left() = change.left();
  shown->set_ranks(ranks);
  shown->set_reason(reason);
}

void JobEntry::SetPlacement(const JobPlacement& placement, const std::vector<ServerShards>& from,
                            const std::vector<std::optional<BackupPlace>>& backups) {
  STRATA_REQUIRE(stage_ == JobStage::kStarting);
  *stored.mutable_record()->mutable_placement() = placement.placement;
  const ChunkMap map(stored.record().layout().elements(), placement.placement.chunk_elements());
  status().set_chunks(map.chunks());
  status().set_chunk_elements(map.chunk_elements());
  stored.mutable_record()->mutable_job()->set_chunk_elements(map.chunk_elements());
  status().mutable_job()->set_chunk_elements(map.chunk_elements());
  status().set_placement(placement.placement.reason());
  std::vector<uint32_t> chunks(placement.placement.shard_endpoints_size(), 0);
  for (const uint32_t shard : placement.placement.shard_of_chunk()) ++chunks[shard];
  for (size_t i = 0; i < placement.shards_of_server.size(); ++i) {
    servers.push_back({.daemon = from[i].daemon, .job_shards = placement.shards_of_server[i]});
    for (size_t k = 0; k < from[i].ports.size(); ++k) {
      proto::JobShardStatus* shown = status().add_shards();
      shown->set_daemon(from[i].daemon);
      shown->set_shard(k);
      shown->set_chunks(chunks[placement.shards_of_server[i][k]]);
    }
  }
  if (!backups.empty()) SetBackups(from, backups);
}

void JobEntry::SetBackups(const std::vector<ServerShards>& from,
                          const std::vector<std::optional<BackupPlace>>& backups) {
  proto::Placement* const placement = stored.mutable_record()->mutable_placement();
  for (size_t shard = 0; shard < backups.size(); ++shard) {
    placement->add_shard_generations(placement->generation());
    std::string* const endpoint = placement->add_backup_endpoints();
    if (!backups[shard]) continue;
    const ServerShards& server = from[backups[shard]->server];
    const auto thread = static_cast<uint32_t>(backups[shard]->thread);
    *endpoint = ShardEndpoint(server, thread);
    if (ServerOn(server.daemon) == nullptr) {
      servers.push_back({.daemon = server.daemon,
                         .job_shards = std::vector<uint32_t>(server.ports.size(), kNoShard)});
    }
    proto::OwnBackup& own = ServerOn(server.daemon)->backups.emplace_back();
    own.set_thread(thread);
    own.set_shard(static_cast<uint32_t>(shard));
    proto::JobShardStatus* shown = status().mutable_shards(static_cast<int>(shard));
    shown->set_backup(server.daemon);
    shown->set_backup_shard(thread);
  }
}

absl::Status JobEntry::TakeLayout() {
  STRATA_REQUIRE(all_ready());
  if (absl::Status agree = CheckNodesAgree(nodes); !agree.ok()) return agree;
  const proto::NodeReady& first = nodes[0].info;
  proto::Job complete = job();
  // Those of a small model in a checkpoint are fewer than a job may ask for.
  const uint32_t chunk_elements = complete.chunk_elements();
  if (stored.record().has_resume()) complete.clear_chunk_elements();
  absl::Status fits = TakeProgramOptimizer(first.has_optimizer() ? &first.optimizer() : nullptr,
                                           first.says_rates(), &complete);
  if (fits.ok()) fits = CheckFitsJob(complete, nodes[0]);
  if (!fits.ok()) return fits;
  complete.set_chunk_elements(chunk_elements);
  proto::JobRecord* record = stored.mutable_record();
  *record->mutable_job() = complete;
  *status().mutable_job() = complete;
  record->set_says_rates(first.says_rates());
  *record->mutable_layout() = first.layout();
  record->set_samples_per_epoch(first.samples_per_epoch());
  record->set_takes_first_weights(first.takes_first_weights());
  const bool is_to_resume = has_checkpoints() || record->has_resume();
  // Nodes begin anew, or join, while it trains.
  const char* const asks = job().has_replace() ? "replace" : has_joiners() ? "ranks_max" : nullptr;
  record->set_ranks_keep_state(is_to_resume && first.ranks_keep_state());
  if ((is_to_resume || asks != nullptr) && !first.can_resume()) {
    return absl::InvalidArgumentError(absl::StrCat(
        !is_to_resume       ? asks
        : has_checkpoints() ? "checkpoint"
                            : "resume",
        ": the program does not say that it can go on from a step that is not its first "
        "(can_resume)"));
  }
  if (asks != nullptr && first.ranks_keep_state()) {
    return absl::InvalidArgumentError(absl::StrCat(
        asks, ": the program's ranks keep state of their own (keeps_state), which ",
        job().has_replace() ? "is lost with a node that dies" : "a node that joins does not have"));
  }
  if (record->has_resume()) {
    absl::Status same = CheckGoesOn(*record, stored.resume().from());
    if (!same.ok()) return same;
  }
  if (job().exchange() == proto::Job::NCCL) {
    if (absl::Status valid = CheckNcclId(nodes[0], first.nccl_id()); !valid.ok()) return valid;
    record->set_nccl_id(first.nccl_id());
  }
  stored.set_total_steps(first.total_steps());
  status().set_run_dir(first.run_dir());
  status().set_elements(first.layout().elements());
  return absl::OkStatus();
}

void JobEntry::BeginStarting(absl::Time now) {
  STRATA_REQUIRE(stage_ == JobStage::kQueued && !nodes.empty());
  stage_ = JobStage::kStarting;
  status().set_state(proto::RUNNING);
  if (status().started_ms() == 0) status().set_started_ms(absl::ToUnixMillis(now));
  status().set_reason("starts its ranks");
}

void JobEntry::BeginMeasuring() {
  STRATA_REQUIRE(stage_ == JobStage::kStarting);
  stage_ = JobStage::kMeasuring;
}

void JobEntry::BeginInstalling() {
  STRATA_REQUIRE(stage_ == JobStage::kStarting);
  stage_ = JobStage::kInstalling;
}

void JobEntry::BeginTraining(absl::Time now) {
  STRATA_REQUIRE(stage_ == JobStage::kStarting || stage_ == JobStage::kMeasuring ||
                 stage_ == JobStage::kInstalling);
  stage_ = JobStage::kTraining;
  status().set_reason(left_out);
  stored.set_training(true);
  stored.mutable_resume()->set_has_trained(true);
  if (job().has_checkpoint()) {
    BeginLedger();
  }
  stored.set_training_began_ms(absl::ToUnixMillis(now));
  metrics = MakeMetrics();
  RefreshProgress();
}

void JobEntry::BeginLedger() {
  has_missed_parts = false;
  ledger = CheckpointLedger(stored.record());
  ledger.Close(status().mutable_checkpoints());
  RenewLedgerRecord();
}

void JobEntry::RenewLedgerRecord() {
  proto::JobRecord record = stored.record();
  record.clear_token();  // it opens the shards to whoever says it
  record.clear_secret();
  record.clear_nccl_id();
  record.clear_resume();
  ledger_record = record.SerializeAsString();
}

void JobEntry::Requeue(const std::string& reason, const std::string& new_secret, absl::Time now) {
  STRATA_REQUIRE(running());
  RefreshProgress();
  stage_ = JobStage::kQueued;
  proto::JobRecord& record = *stored.mutable_record();
  record.set_attempt(record.attempt() + 1);
  // Processes of the attempt before may still be there: shards do not take what they push, and
  // whose keys were revoked meanwhile cannot know the secret of this one.
  if (!record.secret().empty()) record.set_secret(new_secret);
  const uint64_t tokens[] = {record.token(), record.attempt(),
                             XXH3_64bits(record.secret().data(), record.secret().size())};
  record.set_token(XXH3_64bits(tokens, sizeof(tokens)));
  record.clear_view();
  record.clear_view_changes();
  record.clear_placement();
  record.clear_layout();
  record.clear_ring();
  record.clear_resume();
  if (job().has_checkpoint()) ledger.Close(status().mutable_checkpoints());
  stored.set_training(false);
  stored.clear_node_finished();
  stored.clear_nodes();
  stored.set_view_proposed(0);
  stored.set_view_told(0);
  replaces.clear();
  stored.clear_ring();
  agreement.End();
  ring.End();
  keeps.clear();
  nodes.clear();
  servers.clear();
  waits = JobWaits();
  status().set_state(proto::QUEUED);
  status().set_reason(reason);
  status().set_ranks(job().ranks());
  status().clear_nodes();
  status().clear_shards();
  status().mutable_progress()->set_eta_s(-1);
  stored.mutable_resume()->set_is_settled(false);
  stored.mutable_resume()->clear_from();
}

void JobEntry::End(proto::JobState state, const std::string& reason, absl::Time now) {
  STRATA_REQUIRE(!ended());
  STRATA_REQUIRE(state == proto::FINISHED || state == proto::FAILED || state == proto::CANCELLED);
  RefreshProgress();
  stage_ = JobStage::kEnded;
  status().set_state(state);
  status().set_reason(reason);
  status().set_ended_ms(absl::ToUnixMillis(now));
  stored.mutable_record()->clear_secret();  // nobody needs it any more
  status().mutable_progress()->set_eta_s(state == proto::FINISHED ? 0 : -1);
  const uint64_t last = state == proto::FINISHED ? LastCheckpoint(*this) : 0;
  if (last > 0) ledger.Expect(last, status().mutable_checkpoints());
}

proto::JobStatus JobEntry::Shown() const {
  proto::JobStatus shown = WithProgress();
  AddWaits(&shown);
  // Places that nobody takes are no news.
  auto* const nodes = shown.mutable_nodes();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                              [](const proto::JobNodeStatus& node) { return node.absent(); }),
               nodes->end());
  return shown;
}

void JobEntry::AddWaits(proto::JobStatus* shown) const {
  if (running()) shown->mutable_waits()->Add(waits.list().begin(), waits.list().end());
}

proto::JobStatus JobEntry::WithProgress() const {
  proto::JobStatus shown = stored.status();
  if (!running() || !stored.training()) return shown;
  *shown.mutable_progress() = metrics.GetProgress();
  if (metrics.hidden_share()) shown.set_hidden_share(*metrics.hidden_share());
  for (proto::JobNodeStatus& node : *shown.mutable_nodes()) {
    if (node.absent() || node.joins()) continue;
    node.set_step(metrics.SlowestStep(node.first_rank(), node.ranks()));
  }
  return shown;
}

void JobEntry::RefreshProgress() {
  const proto::JobStatus refreshed = WithProgress();
  status() = refreshed;
}

double JobEntry::ElapsedSeconds(absl::Time now) const {
  return static_cast<double>(absl::ToUnixMillis(now) - stored.training_began_ms()) / 1e3;
}

}  // namespace strata::server
