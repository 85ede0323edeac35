#include "server/coordinator/jobs/job_entry.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/placement.h"
#include "common/job/program_optimizer.h"
#include "common/job/views.h"
#include "common/require.h"
#include "server/coordinator/jobs/go_on.h"
#include "server/coordinator/jobs/job_node.h"
#include "server/coordinator/jobs/view_layout.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

// A script's name is more informative than its interpreter's.
std::string ModelName(const proto::Job& job) {
  if (job.has_model()) return job.model().zoo();
  const proto::Program& program = job.program();
  const bool is_script = program.args_size() > 0 && absl::EndsWith(program.args(0), ".py");
  return is_script ? std::filesystem::path(program.args(0)).filename().string() : program.path();
}

// A program decides itself how many epochs it makes, so the default is meaningless.
uint32_t ShownEpochs(const proto::Job& job) {
  return job.has_program() && job.epochs() <= 1 ? 0 : job.epochs();
}

// If ranks take local steps by themselves, the job counts exchanges, but users count steps.
void ShowLocalSteps(uint64_t per_step, proto::JobStatus* shown) {
  if (per_step == 1) return;
  for (auto& restart : *shown->mutable_restarts()) restart.set_step(restart.step() * per_step);
  for (auto& one : *shown->mutable_replacements()) one.set_step(one.step() * per_step);
  if (!shown->has_checkpoints()) return;
  proto::CheckpointStatus* checkpoints = shown->mutable_checkpoints();
  checkpoints->set_newest_step(checkpoints->newest_step() * per_step);
  checkpoints->set_resumed_step(checkpoints->resumed_step() * per_step);
  if (!checkpoints->has_writing_step()) return;
  checkpoints->set_writing_step(checkpoints->writing_step() * per_step);
}

}  // namespace

void JobWaits::ObserveStage(JobStage stage, absl::Time now) {
  if (stage_seen_ == stage) return;
  stage_seen_ = stage;
  stage_since_ = now;
}

std::vector<std::string> JobWaits::Update(const JobScene& scene, const proto::JobStatus& status,
                                          const DiagnosisTiming& timing, absl::Time now) {
  waits_ = Diagnose(scene, now, timing);
  hang_watch_.Observe(scene, now);
  hung_ = hang_watch_.Find(scene, waits_, timing, now);
  return stall_log_.OnWaits(status, waits_, now);
}

void JobWaits::Excuse(absl::Duration gap, absl::Time now) {
  activity_.Excuse(gap, now);
  hang_watch_.Excuse(gap, now);
  stage_since_ = Excused(stage_since_, gap, now);
}

// ---- construction ----

JobEntry JobEntry::Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                             const std::string& resume_dir, absl::Time now) {
  JobEntry entry;
  entry.stored_.mutable_resume()->set_dir(resume_dir);
  entry.stored_.mutable_resume()->set_origin_dir(resume_dir);
  proto::JobRecord* record = entry.stored_.mutable_record();
  record->set_job_id(id.value());
  record->set_token(token);
  record->set_cluster(cluster);
  *record->mutable_job() = job;
  proto::JobStatus& status = entry.status();
  status.set_job_id(id.value());
  status.set_name(job.name());
  status.set_state(proto::QUEUED);
  status.set_mode(ShownModeName(job));
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
  entry.stored_ = stored;
  const proto::JobState state = stored.status().state();
  if (state != proto::QUEUED) entry.stage_ = JobStage::kEnded;
  // Nobody completes the unfinished checkpoints of an ended job.
  if (state != proto::QUEUED && state != proto::RUNNING)
    entry.status().mutable_checkpoints()->clear_writing_step();
  if (state != proto::RUNNING) return entry;
  if (stored.training() && stored.record().job().has_checkpoint()) {
    entry.BeginLedger();
    entry.ledger_.TakeOver(entry.status().checkpoints());
    entry.has_missed_parts_ = true;
  }
  entry.stage_ = stored.training() ? JobStage::kTraining : JobStage::kStarting;
  const absl::StatusOr<Views> views = Views::Of(stored.record());
  STRATA_REQUIRE(views.ok());
  for (int i = 0; i < stored.status().nodes_size(); ++i) {
    entry.nodes_.push_back(JobNode::Restored(stored, i));
    JobNode& node = entry.nodes_.back();
    if (node.takes_part()) node.SetJoinedAt(views->JoinedAt(NodeId(node.node())));
  }
  for (int i = 0; i < stored.status().shards_size(); ++i) {
    const proto::JobShardStatus& shard = stored.status().shards(i);
    for (const std::string& daemon : {shard.daemon(), shard.backup(), shard.next_backup()}) {
      if (daemon.empty() || entry.ServerOn(daemon) != nullptr) continue;
      entry.servers_.push_back({.daemon = daemon, .installed = true, .present = false});
    }
    if (!shard.daemon().empty()) entry.ServerOn(shard.daemon())->job_shards.push_back(i);
  }
  entry.GoOnWithChange();
  entry.metrics_ = entry.MakeMetrics();
  return entry;
}

// No node that has promised nothing may run before all servers have the change.
void JobEntry::GoOnWithChange() {
  const auto& changes = stored_.record().view_changes();
  if (!stored_.training() || changes.empty()) return;
  const proto::ViewChange& newest = *changes.rbegin();
  const bool is_told = newest.number() <= stored_.view_told();
  if (is_told || newest.at_clock() <= stored_.record().resume().clock()) return;
  agreement_.Install(newest, server_names());
}

// Absent ranks are not waited for.
MetricsMerge JobEntry::MakeMetrics() const {
  const proto::JobRecord& record = stored_.record();
  uint32_t ranks = 0;
  for (const proto::LogicalNode& node : record.view().nodes()) ranks += node.ranks();
  MetricsMerge made(ranks, ShownEpochs(job()), record.samples_per_epoch(), stored_.total_steps(),
                    record.resume().step());
  made.SetLocalSteps(ProgramStepsPerStep(job()));
  const absl::StatusOr<Views> views = Views::Of(record);
  STRATA_REQUIRE(views.ok());
  const uint64_t resumed = record.resume().clock();
  if (is_elastic() && resumed > 0) made.SetEarlier(views->RankStepsBefore(resumed));
  for (const proto::LogicalNode& node : record.view().nodes()) {
    const NodeId id(node.node());
    if (drops_lost() && stored_.status().nodes(static_cast<int>(node.node())).absent()) {
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

// ---- state ----

bool JobEntry::all_ready() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const JobNode& node) { return node.ready() || node.absent(); });
}

JobNode* JobEntry::NodeOn(const std::string& daemon) {
  const auto it = std::find_if(nodes_.begin(), nodes_.end(),
                               [&](const JobNode& node) { return node.daemon() == daemon; });
  return it == nodes_.end() ? nullptr : &*it;
}

JobServer* JobEntry::ServerOn(const std::string& daemon) {
  const auto it = std::find_if(servers_.begin(), servers_.end(),
                               [&](const JobServer& server) { return server.daemon == daemon; });
  return it == servers_.end() ? nullptr : &*it;
}

bool JobEntry::RemoveServer(const std::string& daemon) {
  return std::erase_if(servers_, [&](const JobServer& one) { return one.daemon == daemon; }) > 0;
}

std::set<std::string> JobEntry::server_names() const {
  std::set<std::string> names;
  for (const JobServer& server : servers_) names.insert(server.daemon);
  return names;
}

const JobNode& JobEntry::leader() const {
  STRATA_REQUIRE(!nodes_.empty());
  const auto first = std::find_if(nodes_.begin(), nodes_.end(),
                                  [](const JobNode& node) { return node.takes_part(); });
  return first == nodes_.end() ? nodes_.front() : *first;
}

uint32_t JobEntry::held_ranks() const {
  if (!is_elastic() || !running()) return job().ranks();
  uint32_t ranks = 0;
  for (const JobNode& node : nodes_) {
    if (!node.absent()) ranks += node.ranks();
  }
  return ranks;
}

void JobEntry::SetView(const std::vector<RankBlock>& blocks) {
  STRATA_REQUIRE(queued() && !blocks.empty());
  stored_.set_protocol_version(blocks.front().protocol);
  LayOutNodes(blocks, stored_.resume().from(), stored_.mutable_record());
  stored_.set_view_proposed(HighestViewNumber(stored_.record()));
  stored_.set_view_told(stored_.view_proposed());
  nodes_.clear();
  stored_.clear_nodes();
  stored_.clear_node_finished();
  status().clear_nodes();
  status().set_ranks(0);
  for (const proto::LogicalNode& logical : stored_.record().view().nodes()) {
    const size_t number = nodes_.size();
    const std::string daemon = number < blocks.size() ? blocks[number].daemon : "";
    JobNode node = JobNode::Laid(static_cast<uint32_t>(number), logical, daemon);
    if (!node.absent()) status().set_ranks(status().ranks() + node.ranks());
    proto::JobNodeStatus* shown = status().add_nodes();
    shown->set_node(node.node());
    shown->set_daemon(node.daemon());
    shown->set_first_rank(node.first_rank());
    shown->set_ranks(node.ranks());
    shown->set_incarnation(node.incarnation());
    shown->set_absent(node.absent());
    stored_.add_node_finished(node.finished());
    nodes_.push_back(std::move(node));
  }
}

void JobEntry::StoreNode(const JobNode& node) {
  const int index = static_cast<int>(node.node());
  proto::JobNodeStatus* shown = status().mutable_nodes(index);
  // The last daemon: it may still send messages about the node.
  if (!node.absent()) shown->set_daemon(node.daemon());
  shown->set_incarnation(node.incarnation());
  shown->set_absent(node.absent());
  shown->set_joins(node.joins());
  shown->clear_leaves_at();
  if (node.leaves_at()) shown->set_leaves_at(*node.leaves_at());
  stored_.set_node_finished(index, node.finished());
  while (stored_.nodes_size() < status().nodes_size())
    stored_.add_nodes()->set_is_told_to_run(true);
  proto::StoredNode* kept = stored_.mutable_nodes(index);
  kept->set_is_told_to_run(node.ready());
  if (node.died_at_step()) kept->set_died_at_step(*node.died_at_step());
  kept->set_dropped(node.dropped());
  kept->set_takes_last(node.takes_last());
}

void JobEntry::MakeAbsent(JobNode* node) {
  node->Vacate();
  waits_.activity().ForgetNode(node->node());
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
  *stored_.mutable_record()->mutable_placement() = placement.placement;
  const ChunkMap map(stored_.record().layout().elements(), placement.placement.chunk_elements());
  status().set_chunks(map.chunks());
  status().set_chunk_elements(map.chunk_elements());
  stored_.mutable_record()->mutable_job()->set_chunk_elements(map.chunk_elements());
  status().mutable_job()->set_chunk_elements(map.chunk_elements());
  status().set_placement(placement.placement.reason());
  std::vector<uint32_t> chunks(placement.placement.shard_endpoints_size(), 0);
  for (const uint32_t shard : placement.placement.shard_of_chunk()) ++chunks[shard];
  for (size_t i = 0; i < placement.shards_of_server.size(); ++i) {
    servers_.push_back({.daemon = from[i].daemon, .job_shards = placement.shards_of_server[i]});
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
  proto::Placement* const placement = stored_.mutable_record()->mutable_placement();
  for (size_t shard = 0; shard < backups.size(); ++shard) {
    placement->add_shard_generations(placement->generation());
    std::string* const endpoint = placement->add_backup_endpoints();
    if (!backups[shard]) continue;
    const ServerShards& server = from[backups[shard]->server];
    const auto thread = static_cast<uint32_t>(backups[shard]->thread);
    *endpoint = ShardEndpoint(server, thread);
    if (ServerOn(server.daemon) == nullptr) {
      servers_.push_back({.daemon = server.daemon,
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
  if (absl::Status agree = CheckNodesAgree(nodes_); !agree.ok()) return agree;
  const proto::NodeReady& first = nodes_[0].info();
  proto::Job complete = job();
  // A checkpoint of a small model may have smaller chunks than a job may request.
  const uint32_t chunk_elements = complete.chunk_elements();
  if (stored_.record().has_resume()) complete.clear_chunk_elements();
  const proto::Optimizer* const named = first.has_optimizer() ? &first.optimizer() : nullptr;
  TakeProgramSamples(first.samples_per_rank(), named, &complete);
  absl::Status fits = TakeProgramOptimizer(named, first.says_rates(), &complete);
  if (fits.ok()) fits = CheckFitsJob(complete, nodes_[0]);
  if (!fits.ok()) return fits;
  complete.set_chunk_elements(chunk_elements);
  proto::JobRecord* record = stored_.mutable_record();
  *record->mutable_job() = complete;
  *status().mutable_job() = complete;
  record->set_says_rates(first.says_rates());
  record->set_marks_absent(first.marks_absent() && MayMarkAbsent(complete));
  *record->mutable_layout() = first.layout();
  record->set_samples_per_epoch(first.samples_per_epoch());
  record->set_takes_first_weights(first.takes_first_weights());
  const bool is_to_resume = has_checkpoints() || record->has_resume();
  // Nodes restart or join while it trains.
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
    absl::Status same = CheckContinues(*record, stored_.resume().from());
    if (!same.ok()) return same;
  }
  if (job().exchange() == proto::Job::NCCL) {
    if (absl::Status valid = CheckNcclId(nodes_[0], first.nccl_id()); !valid.ok()) return valid;
    record->set_nccl_id(first.nccl_id());
  }
  stored_.set_total_steps(first.total_steps());
  status().set_run_dir(first.run_dir());
  status().set_elements(first.layout().elements());
  return absl::OkStatus();
}

void JobEntry::BeginStarting(absl::Time now) {
  STRATA_REQUIRE(stage_ == JobStage::kQueued && !nodes_.empty());
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
  status().set_reason(left_out_);
  stored_.set_training(true);
  stored_.mutable_resume()->set_has_trained(true);
  if (job().has_checkpoint()) {
    BeginLedger();
  }
  stored_.set_training_began_ms(absl::ToUnixMillis(now));
  metrics_ = MakeMetrics();
  states_ = RankStates();
  RefreshProgress();
}

void JobEntry::BeginLedger() {
  has_missed_parts_ = false;
  ledger_ = CheckpointLedger(stored_.record());
  ledger_.Close(status().mutable_checkpoints());
  RenewLedgerRecord();
}

void JobEntry::RenewLedgerRecord() {
  proto::JobRecord record = stored_.record();
  record.clear_token();  // it gives access to the shards
  record.clear_secret();
  record.clear_nccl_id();
  record.clear_resume();
  ledger_record_ = record.SerializeAsString();
}

void JobEntry::Requeue(const std::string& reason, const std::string& new_secret, absl::Time now) {
  STRATA_REQUIRE(running());
  RefreshProgress();
  stage_ = JobStage::kQueued;
  proto::JobRecord& record = *stored_.mutable_record();
  record.set_attempt(record.attempt() + 1);
  // Processes of the previous attempt may still run. Shards reject what they push, and members
  // whose keys were revoked meanwhile cannot learn this attempt's secret.
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
  if (job().has_checkpoint()) ledger_.Close(status().mutable_checkpoints());
  stored_.set_training(false);
  stored_.clear_node_finished();
  stored_.clear_nodes();
  stored_.set_view_proposed(0);
  stored_.set_view_told(0);
  stored_.clear_ring();
  agreement_.End();
  ring_.End();
  nodes_.clear();
  servers_.clear();
  waits_ = JobWaits();
  status().set_state(proto::QUEUED);
  status().set_reason(reason);
  status().set_ranks(job().ranks());
  status().clear_nodes();
  status().clear_shards();
  status().mutable_progress()->set_eta_s(-1);
  stored_.mutable_resume()->set_is_settled(false);
  stored_.mutable_resume()->clear_from();
}

void JobEntry::End(proto::JobState state, const std::string& reason, absl::Time now) {
  STRATA_REQUIRE(!ended());
  STRATA_REQUIRE(state == proto::FINISHED || state == proto::FAILED || state == proto::CANCELLED);
  RefreshProgress();
  stage_ = JobStage::kEnded;
  status().set_state(state);
  status().set_reason(reason);
  status().set_ended_ms(absl::ToUnixMillis(now));
  stored_.mutable_record()->clear_secret();  // nobody needs it any more
  status().mutable_progress()->set_eta_s(state == proto::FINISHED ? 0 : -1);
  const uint64_t last = state == proto::FINISHED ? LastCheckpoint() : 0;
  if (last > 0) ledger_.Expect(last, status().mutable_checkpoints());
}

uint64_t JobEntry::LastCheckpoint() const {
  const uint64_t every = ClocksPerCheckpoint(job());
  if (every == 0 || has_missed_parts_ || nodes_.empty()) return 0;
  const JobNode& first = leader();
  if (!first.steps_made()) return 0;
  const uint64_t clocks = *first.steps_made() / StepsPerClock(job());
  const uint64_t last = clocks / every * every;
  return last > stored_.record().resume().clock() ? last : 0;
}

proto::JobStatus JobEntry::Shown() const {
  proto::JobStatus shown = WithProgress();
  AddWaits(&shown);
  ShowLocalSteps(ProgramStepsPerStep(job()), &shown);
  // Vacant places are not shown.
  auto* const nodes = shown.mutable_nodes();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                              [](const proto::JobNodeStatus& node) { return node.absent(); }),
               nodes->end());
  return shown;
}

void JobEntry::AddWaits(proto::JobStatus* shown) const {
  if (running()) shown->mutable_waits()->Add(waits_.list().begin(), waits_.list().end());
}

proto::JobStatus JobEntry::WithProgress() const {
  proto::JobStatus shown = stored_.status();
  if (!running() || !stored_.training()) return shown;
  *shown.mutable_progress() = metrics_.GetProgress();
  if (metrics_.hidden_share()) shown.set_hidden_share(*metrics_.hidden_share());
  for (proto::JobNodeStatus& node : *shown.mutable_nodes()) {
    if (node.absent() || node.joins()) continue;
    node.set_step(metrics_.ShownStep(node.first_rank(), node.ranks()));
  }
  return shown;
}

void JobEntry::RefreshProgress() {
  const proto::JobStatus refreshed = WithProgress();
  status() = refreshed;
}

double JobEntry::ElapsedSeconds(absl::Time now) const {
  return static_cast<double>(absl::ToUnixMillis(now) - stored_.training_began_ms()) / 1e3;
}

}  // namespace strata::server
