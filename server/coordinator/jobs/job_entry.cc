#include "server/coordinator/jobs/job_entry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/job.h"

namespace strata::server {
namespace {

constexpr size_t kNcclIdBytes = 128;

// How two layouts differ, in words; empty when they do not.
std::string Difference(const proto::Layout& a, const proto::Layout& b) {
  for (int i = 0; i < std::min(a.segments_size(), b.segments_size()); ++i) {
    const proto::Segment& left = a.segments(i);
    const proto::Segment& right = b.segments(i);
    if (left.SerializeAsString() == right.SerializeAsString()) continue;
    return left.name() == right.name()
               ? absl::StrFormat("tensor \"%s\" differs", left.name())
               : absl::StrFormat("tensor %d is \"%s\" and \"%s\"", i, left.name(), right.name());
  }
  if (a.segments_size() != b.segments_size()) {
    return absl::StrFormat("%d and %d tensors", a.segments_size(), b.segments_size());
  }
  return a.elements() == b.elements()
             ? ""
             : absl::StrFormat("%d and %d elements", a.elements(), b.elements());
}

// "" when both nodes are about to train the same.
std::string Difference(const proto::NodeReady& a, const proto::NodeReady& b) {
  if (a.samples_per_epoch() != b.samples_per_epoch()) {
    return absl::StrFormat("%d and %d samples per epoch", a.samples_per_epoch(),
                           b.samples_per_epoch());
  }
  if (a.total_steps() != b.total_steps()) {
    return absl::StrFormat("%d and %d steps", a.total_steps(), b.total_steps());
  }
  return Difference(a.layout(), b.layout());
}

// The first field that is a function of epochs; none: "".
std::string NeedsEpochs(const proto::Job& job) {
  const proto::Schedule& schedule = job.schedule();
  if (schedule.warmup_epochs() > 0 || schedule.has_step() || schedule.has_cosine()) {
    return "schedule: warm-up, step and cosine need";
  }
  if (job.optimizer().has_rmsprop_warmup()) return "optimizer.rmsprop_warmup needs";
  return job.push().warmup_epochs() > 0 ? "push.warmup_epochs needs" : "";
}

// What of a job would change tensors that become means, or lose parts of them, as ValidateJob
// refuses it with model.batch_norm: LAST_BATCH; none: "".
std::string ChangesAveraged(const proto::Job& job) {
  if (job.consistency().lazy().local_steps() > 0) return "consistency.lazy.local_steps";
  if (job.consistency().async().has_elastic()) return "consistency.async.elastic";
  if (CompensationOf(job.consistency())) return "consistency.async.delay_compensation";
  for (const auto& [field, codec] :
       {std::pair("push.codec", job.push().codec()), std::pair("pull.codec", job.pull().codec())}) {
    using proto::Encoding;
    if (codec == Encoding::FP32 || codec == Encoding::FP16 || codec == Encoding::BF16) continue;
    return absl::StrCat(field, ": ", Encoding::Codec_Name(codec));
  }
  return "";
}

// Of a valid layout, which is a program's own. Errors: InvalidArgument naming tensor and field.
absl::Status CheckAveraged(const proto::Job& job, const proto::Layout& layout) {
  const std::string field = ChangesAveraged(job);
  if (field.empty()) return absl::OkStatus();
  for (const proto::Segment& segment : layout.segments()) {
    if (!segment.averaged()) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "tensor \"%s\": is averaged, which does not go with %s", segment.name(), field));
  }
  return absl::OkStatus();
}

}  // namespace

std::string JobNode::Describe() const {
  return ranks == 1 ? absl::StrFormat("worker %s (node %d, rank %d)", daemon, node, first_rank)
                    : absl::StrFormat("worker %s (node %d, ranks %d to %d)", daemon, node,
                                      first_rank, first_rank + ranks - 1);
}

bool JobEntry::all_ready() const {
  return std::all_of(nodes.begin(), nodes.end(), [](const JobNode& node) { return node.ready; });
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

void JobEntry::SetView(const std::vector<RankBlock>& blocks) {
  proto::View* view = stored.mutable_record()->mutable_view();
  view->Clear();
  view->set_number(1);
  nodes.clear();
  status().clear_nodes();
  for (const RankBlock& block : blocks) {
    JobNode node;
    node.daemon = block.daemon;
    node.node = nodes.size();
    node.first_rank = block.first_rank;
    node.ranks = block.ranks;
    proto::LogicalNode* logical = view->add_nodes();
    logical->set_node(node.node);
    logical->set_first_rank(node.first_rank);
    logical->set_ranks(node.ranks);
    proto::JobNodeStatus* shown = status().add_nodes();
    shown->set_node(node.node);
    shown->set_daemon(node.daemon);
    shown->set_first_rank(node.first_rank);
    shown->set_ranks(node.ranks);
    nodes.push_back(std::move(node));
    stored.add_node_finished(false);
  }
}

void JobEntry::SetPlacement(const JobPlacement& placement, const std::vector<ServerShards>& from) {
  *stored.mutable_record()->mutable_placement() = placement.placement;
  const ChunkMap map(stored.record().layout().elements(), placement.placement.chunk_elements());
  status().set_chunks(map.chunks());
  status().set_chunk_elements(map.chunk_elements());
  stored.mutable_record()->mutable_job()->set_chunk_elements(map.chunk_elements());
  status().mutable_job()->set_chunk_elements(map.chunk_elements());
  status().set_placement(placement.placement.reason());
  std::vector<uint32_t> chunks(placement.placement.shard_endpoints_size(), 0);
  for (const uint32_t shard : placement.placement.shard_of_chunk()) ++chunks[shard];
  for (size_t i = 0; i < from.size(); ++i) {
    servers.push_back({.daemon = from[i].daemon, .job_shards = placement.shards_of_server[i]});
    for (size_t k = 0; k < from[i].ports.size(); ++k) {
      proto::JobShardStatus* shown = status().add_shards();
      shown->set_daemon(from[i].daemon);
      shown->set_shard(k);
      shown->set_chunks(chunks[placement.shards_of_server[i][k]]);
    }
  }
}

absl::Status JobEntry::TakeLayout() {
  const proto::NodeReady& first = nodes[0].info;
  for (const JobNode& node : nodes) {
    absl::Status valid = ValidateLayout(node.info.layout());
    if (valid.ok()) valid = CheckAveraged(job(), node.info.layout());
    if (!valid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("node %d (%s): %s", node.node, node.daemon, valid.message()));
    }
    const std::string difference = Difference(first, node.info);
    if (difference.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("node 0 (%s) and node %d (%s) do not train the same: %s", nodes[0].daemon,
                        node.node, node.daemon, difference));
  }
  const std::string needs_epochs = NeedsEpochs(job());
  if (first.samples_per_epoch() == 0 && !needs_epochs.empty()) {
    return absl::InvalidArgumentError(needs_epochs +
                                      " the samples per epoch, which the program does not say");
  }
  proto::JobRecord* record = stored.mutable_record();
  *record->mutable_layout() = first.layout();
  record->set_samples_per_epoch(first.samples_per_epoch());
  if (job().exchange() == proto::Job::NCCL) {
    if (first.nccl_id().size() != kNcclIdBytes) {
      return absl::InvalidArgumentError(
          absl::StrFormat("node 0 (%s) gives an id of %d bytes for NCCL's ranks to meet by, not %d",
                          nodes[0].daemon, first.nccl_id().size(), kNcclIdBytes));
    }
    record->set_nccl_id(first.nccl_id());
  }
  stored.set_total_steps(first.total_steps());
  status().set_run_dir(first.run_dir());
  status().set_elements(first.layout().elements());
  return absl::OkStatus();
}

void JobEntry::BeginTraining(absl::Time now) {
  phase = JobPhase::kTraining;
  status().set_reason(left_out);
  stored.set_training(true);
  stored.set_training_began_ms(absl::ToUnixMillis(now));
  metrics = MetricsMerge(job().ranks(), job().epochs(), stored.record().samples_per_epoch(),
                         stored.total_steps());
  RefreshProgress();
}

proto::JobStatus JobEntry::Shown() const {
  proto::JobStatus shown = WithProgress();
  AddWaits(&shown);
  return shown;
}

void JobEntry::AddWaits(proto::JobStatus* shown) const {
  if (running()) shown->mutable_waits()->Add(waits.begin(), waits.end());
}

proto::JobStatus JobEntry::WithProgress() const {
  proto::JobStatus shown = stored.status();
  if (!running() || !stored.training()) return shown;
  *shown.mutable_progress() = metrics.GetProgress();
  if (metrics.hidden_share()) shown.set_hidden_share(*metrics.hidden_share());
  for (proto::JobNodeStatus& node : *shown.mutable_nodes()) {
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

JobEntry JobEntry::Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                             absl::Time now) {
  JobEntry entry;
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
  status.set_model(job.has_model() ? job.model().zoo() : job.program().path());
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
  if (!entry.running()) return entry;
  entry.phase = stored.training() ? JobPhase::kTraining : JobPhase::kStarting;
  for (const proto::JobNodeStatus& shown : stored.status().nodes()) {
    JobNode node;
    node.daemon = shown.daemon();
    node.node = shown.node();
    node.first_rank = shown.first_rank();
    node.ranks = shown.ranks();
    node.ready = stored.training();
    node.finished = static_cast<int>(node.node) < stored.node_finished_size() &&
                    stored.node_finished(node.node);
    node.present = node.finished;
    entry.nodes.push_back(std::move(node));
  }
  for (int i = 0; i < stored.status().shards_size(); ++i) {
    const std::string& daemon = stored.status().shards(i).daemon();
    if (entry.ServerOn(daemon) == nullptr) {
      entry.servers.push_back({.daemon = daemon, .installed = true, .present = false});
    }
    entry.ServerOn(daemon)->job_shards.push_back(i);
  }
  entry.metrics = MetricsMerge(entry.job().ranks(), entry.job().epochs(),
                               stored.record().samples_per_epoch(), stored.total_steps());
  return entry;
}

}  // namespace strata::server
