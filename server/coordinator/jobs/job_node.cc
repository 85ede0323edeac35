#include "server/coordinator/jobs/job_node.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

// Returns whether a transition is legal; some keep the node in its state.
bool MayGo(NodeState from, NodeState to) {
  switch (from) {
    case NodeState::kVacant:
      return to == NodeState::kJoins;
    case NodeState::kJoins:
      return to == NodeState::kReadyToJoin || to == NodeState::kVacant;
    case NodeState::kReadyToJoin:  // its worker may repeat that it is ready
      return to == NodeState::kReadyToJoin || to == NodeState::kWaitsForChange ||
             to == NodeState::kVacant;
    case NodeState::kStarts:
    case NodeState::kWaitsForChange:
      return to == NodeState::kStarts || to == NodeState::kWaitsForChange ||
             to == NodeState::kReady || to == NodeState::kVacant;
    case NodeState::kReady:
      return to == NodeState::kStarts || to == NodeState::kFinished || to == NodeState::kVacant;
    case NodeState::kFinished:
      return false;
  }
  return false;
}

std::string NameFirstRank(const JobNode& node) {
  return absl::StrFormat("rank %d (node %d, %s)", node.first_rank(), node.node(), node.daemon());
}

// Returns whether, as far as known, it makes the job's last step: it does not leave before it, nor
// join after it.
bool MakesTheLast(const JobNode& node) {
  if (!node.takes_part()) return false;
  if (!node.steps_made()) return !node.leaves_at();
  return *node.steps_made() > node.joined_at() &&
         (!node.leaves_at() || node.steps_made() < node.leaves_at());
}

constexpr size_t kNcclIdBytes = 128;

// Describes how two layouts differ; empty: they do not.
std::string Difference(const proto::Layout& a, const proto::Layout& b) {
  for (int i = 0; i < std::min(a.segments_size(), b.segments_size()); ++i) {
    const proto::Segment& left = a.segments(i);
    const proto::Segment& right = b.segments(i);
    if (left.SerializeAsString() == right.SerializeAsString()) continue;
    return absl::StrFormat("tensor %d is %s and %s", i, TensorText(left), TensorText(right));
  }
  if (a.segments_size() != b.segments_size()) {
    const int both = std::min(a.segments_size(), b.segments_size());
    const proto::Layout& longer = a.segments_size() > both ? a : b;
    return absl::StrFormat("%d and %d tensors: one has no %s", a.segments_size(), b.segments_size(),
                           TensorText(longer.segments(both)));
  }
  if (a.elements() != b.elements()) {
    return absl::StrFormat("%d and %d elements", a.elements(), b.elements());
  }
  return TableDifference(a, b);
}

// Returns the optimizer of the node's program, as text.
std::string Named(const proto::NodeReady& node) {
  return node.has_optimizer() ? OptimizerText(node.optimizer()) : "none";
}

// Describes how the training of two nodes differs; empty: it does not.
std::string Difference(const proto::NodeReady& a, const proto::NodeReady& b) {
  if (a.samples_per_epoch() != b.samples_per_epoch()) {
    return absl::StrFormat("%d and %d samples per epoch", a.samples_per_epoch(),
                           b.samples_per_epoch());
  }
  if (a.total_steps() != b.total_steps()) {
    return absl::StrFormat("%d and %d steps", a.total_steps(), b.total_steps());
  }
  if (a.takes_first_weights() != b.takes_first_weights()) {
    return absl::StrCat(a.takes_first_weights() ? "rank 0's" : "its own", " and ",
                        b.takes_first_weights() ? "rank 0's" : "its own", " first weights");
  }
  if (Named(a) != Named(b)) {
    return absl::StrFormat("optimizer %s and %s", Named(a), Named(b));
  }
  if (a.says_rates() != b.says_rates()) {
    return absl::StrFormat("learning rates of %s and of %s",
                           a.says_rates() ? "the program" : "schedule",
                           b.says_rates() ? "the program" : "schedule");
  }
  if (a.can_resume() != b.can_resume()) {
    return absl::StrFormat("a program that %s go on from a checkpoint and one that %s",
                           a.can_resume() ? "can" : "cannot", b.can_resume() ? "can" : "cannot");
  }
  if (a.ranks_keep_state() != b.ranks_keep_state()) {
    return absl::StrFormat("ranks that %s state and ranks that %s",
                           a.ranks_keep_state() ? "keep" : "do not keep",
                           b.ranks_keep_state() ? "keep it" : "do not");
  }
  if (a.samples_per_rank() != b.samples_per_rank()) {
    return absl::StrFormat("%d and %d samples of each rank in a step", a.samples_per_rank(),
                           b.samples_per_rank());
  }
  if (a.marks_absent() != b.marks_absent()) {
    return absl::StrFormat("a program that %s tensors without a gradient and one that %s",
                           a.marks_absent() ? "marks" : "does not mark",
                           b.marks_absent() ? "does" : "does not");
  }
  return Difference(a.layout(), b.layout());
}

// Returns the first field that is a function of epochs, with its verb; empty: none.
std::string NeedsEpochs(const proto::Job& job, bool says_rates) {
  const proto::Schedule& schedule = job.schedule();
  const bool has_shape =
      schedule.warmup_epochs() > 0 || schedule.has_step() || schedule.has_cosine();
  if (has_shape && !says_rates) {
    return "schedule: warm-up, step and cosine need";
  }
  if (job.optimizer().has_rmsprop_warmup()) return "optimizer.rmsprop_warmup needs";
  return job.push().warmup_epochs() > 0 ? "push.warmup_epochs needs" : "";
}

// Returns the field of a job that would change averaged tensors, or lose parts of them, as
// ValidateJob refuses it with model.batch_norm: LAST_BATCH; empty: none.
std::string ChangesAveraged(const proto::Job& job) {
  if (job.consistency().lazy().local_steps() > 0) return "consistency.lazy.local_steps";
  if (job.consistency().async().has_elastic()) return "consistency.async.elastic";
  if (MakeDelayCompensation(job.consistency())) return "consistency.async.delay_compensation";
  for (const auto& [field, codec] :
       {std::pair("push.codec", job.push().codec()), std::pair("pull.codec", job.pull().codec())}) {
    using proto::Encoding;
    if (codec == Encoding::FP32 || codec == Encoding::FP16 || codec == Encoding::BF16) continue;
    return absl::StrCat(field, ": ", Encoding::Codec_Name(codec));
  }
  return "";
}

// Checks a program's own valid layout. Errors: InvalidArgument naming tensor and field.
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

// Returns the field of a job, or its value, that rows do not go with; empty: none.
std::string RefusedWithRows(const proto::Job& job) {
  if (job.exchange() != proto::Job::PARAMETER_SERVER) {
    return absl::StrCat("exchange: ", proto::Job::Exchange_Name(job.exchange()));
  }
  // With a mode of their own, too: the arena's clocks would not be the steps of rows.
  const std::string field = DoesNotGoWithRows(job.consistency());
  if (!field.empty()) return absl::StrCat("consistency.", field);
  if (job.replicas() > 0) return "replicas";
  if (job.has_replace()) return "replace";
  return IsElastic(job) ? "ranks_min and ranks_max" : "";
}

absl::Status CheckTables(const proto::Job& job, const proto::Layout& layout) {
  if (layout.tables().empty()) {
    return job.has_rows() ? absl::InvalidArgumentError("rows: the program has no tables")
                          : absl::OkStatus();
  }
  const std::string field = RefusedWithRows(job);
  if (field.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("table \"%s\": does not go with %s", layout.tables(0).name(), field));
}

}  // namespace

JobNode JobNode::Laid(uint32_t node, const proto::LogicalNode& logical, const std::string& daemon) {
  JobNode laid;
  laid.node_ = node;
  laid.first_rank_ = logical.first_rank();
  laid.ranks_ = logical.ranks();
  laid.daemon_ = daemon;
  if (daemon.empty()) laid.state_ = NodeState::kVacant;
  return laid;
}

JobNode JobNode::Restored(const proto::StoredJob& stored, int index) {
  const proto::JobNodeStatus& shown = stored.status().nodes(index);
  JobNode node;
  node.node_ = shown.node();
  node.first_rank_ = shown.first_rank();
  node.ranks_ = shown.ranks();
  node.incarnation_ = std::max(1u, shown.incarnation());
  bool runs = stored.training();
  if (index < stored.nodes_size()) {
    const proto::StoredNode& kept = stored.nodes(index);
    runs = kept.is_told_to_run();
    if (kept.has_died_at_step()) node.died_at_step_ = kept.died_at_step();
    node.dropped_ = kept.dropped();
    node.takes_last_ = kept.takes_last();
  }
  const bool is_finished = index < stored.node_finished_size() && stored.node_finished(index);
  node.state_ = shown.absent()  ? NodeState::kVacant
                : shown.joins() ? NodeState::kJoins
                : is_finished   ? NodeState::kFinished
                : runs          ? NodeState::kReady
                                : NodeState::kStarts;
  if (!node.absent()) node.daemon_ = shown.daemon();
  if (shown.has_leaves_at()) node.leaves_at_ = shown.leaves_at();
  node.present_ = node.finished() || node.waits_for_worker();
  for (const proto::ReplacementStatus& one : stored.status().replacements()) {
    if (one.node() != node.node_) continue;
    node.replaced_ = node.takes_part();
    if (node.waits_for_worker()) node.waits_since_ = absl::FromUnixMillis(one.lost_ms());
  }
  return node;
}

void JobNode::Go(NodeState to) {
  STRATA_REQUIRE(MayGo(state_, to));
  state_ = to;
}

void JobNode::BeginToJoin(const std::string& daemon) {
  Go(NodeState::kJoins);
  daemon_ = daemon;
}

void JobNode::BeReadyToJoin() { Go(NodeState::kReadyToJoin); }

void JobNode::Join(uint64_t at) {
  Go(NodeState::kWaitsForChange);
  joined_at_ = at;
}

void JobNode::BeReady(const proto::NodeReady& message) {
  Go(NodeState::kReady);
  info_ = message;
}

void JobNode::WaitForChange() { Go(NodeState::kWaitsForChange); }

void JobNode::Run() { Go(NodeState::kReady); }

void JobNode::Finish() { Go(NodeState::kFinished); }

void JobNode::Lose(absl::Time now) {
  Go(NodeState::kStarts);
  ++incarnation_;
  replaced_ = true;
  daemon_.clear();
  waits_since_ = now;
  info_.Clear();
  steps_made_.reset();
  missing_since_ = absl::InfiniteFuture();
  present_ = true;
}

void JobNode::Vacate() {
  Go(NodeState::kVacant);
  ++incarnation_;
  replaced_ = false;
  daemon_.clear();
  joined_at_ = steps_ = 0;
  leaves_at_.reset();
  steps_made_.reset();
  died_at_step_.reset();
  info_.Clear();
  missing_since_ = absl::InfiniteFuture();
  present_ = true;
}

void JobNode::BeginOn(const std::string& daemon) {
  STRATA_REQUIRE(waits_for_worker());
  daemon_ = daemon;
  waits_since_ = absl::InfiniteFuture();
}

void JobNode::ComeBack(absl::Time missing_since) {
  present_ = true;
  missing_since_ = missing_since;
}

void JobNode::Excuse(absl::Duration gap, absl::Time now) {
  missing_since_ = Excused(missing_since_, gap, now);
  waits_since_ = Excused(waits_since_, gap, now);
}

std::string JobNode::Describe() const {
  return ranks_ == 1 ? absl::StrFormat("worker %s (node %d, rank %d)", daemon_, node_, first_rank_)
                     : absl::StrFormat("worker %s (node %d, ranks %d to %d)", daemon_, node_,
                                       first_rank_, first_rank_ + ranks_ - 1);
}

std::string JobNode::DescribeAlone() const {
  return ranks_ == 1 ? absl::StrFormat("node %d (rank %d)", node_, first_rank_)
                     : absl::StrFormat("node %d (ranks %d to %d)", node_, first_rank_,
                                       first_rank_ + ranks_ - 1);
}

absl::Status CheckEqualSteps(absl::Span<const JobNode> nodes) {
  const auto done = std::find_if(nodes.begin(), nodes.end(), [](const JobNode& node) {
    return node.steps_made().has_value() && MakesTheLast(node);
  });
  if (done == nodes.end()) return absl::OkStatus();
  const uint64_t made = *done->steps_made();
  for (const JobNode& node : nodes) {
    if (!MakesTheLast(node) || node.joined_at() >= made) continue;
    if (node.steps_made().value_or(made) != made) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s has finished after %d steps, %s after %d", NameFirstRank(*done), made,
                          NameFirstRank(node), *node.steps_made()));
    }
    if (node.steps() > made) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s has finished after %d steps, but %s goes on", NameFirstRank(*done),
                          made, NameFirstRank(node)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNodesAgree(absl::Span<const JobNode> nodes) {
  STRATA_REQUIRE(!nodes.empty());
  const proto::NodeReady& first = nodes[0].info();
  for (const JobNode& node : nodes) {
    if (node.absent()) continue;
    if (const absl::Status valid = ValidateLayout(node.info().layout()); !valid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("node %d (%s): %s", node.node(), node.daemon(), valid.message()));
    }
    const std::string difference = Difference(first, node.info());
    if (difference.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("node 0 (%s) and node %d (%s) do not train the same: %s", nodes[0].daemon(),
                        node.node(), node.daemon(), difference));
  }
  return absl::OkStatus();
}

absl::Status CheckTakesPlace(const proto::JobRecord& record, uint64_t total_steps,
                             const JobNode& node) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrFormat("node %d (%s)%s does not train what the job does: %s", node.node(),
                        node.daemon(), node.replaced() ? ", which was begun again," : "", why));
  };
  proto::Job job = record.job();
  proto::Optimizer named = node.info().optimizer();
  // The record's optimizer is the program's with the job's limit.
  if (named.clip_norm() == 0) named.set_clip_norm(job.optimizer().clip_norm());
  absl::Status same = TakeProgramOptimizer(node.info().has_optimizer() ? &named : nullptr,
                                           node.info().says_rates(), &job);
  if (same.ok()) same = ValidateLayout(node.info().layout());
  if (!same.ok()) return refuse(same.message());
  proto::NodeReady of_job = node.info();  // fields missing in the record are up to the node
  *of_job.mutable_layout() = record.layout();
  of_job.set_samples_per_epoch(record.samples_per_epoch());
  of_job.set_total_steps(total_steps);
  of_job.set_takes_first_weights(record.takes_first_weights());
  of_job.set_says_rates(record.says_rates());
  of_job.set_can_resume(true);
  if (MayMarkAbsent(job)) of_job.set_marks_absent(record.marks_absent());
  const std::string difference = Difference(of_job, node.info());
  return difference.empty() ? absl::OkStatus() : refuse(difference);
}

absl::Status CheckFitsJob(const proto::Job& job, const JobNode& node) {
  const proto::NodeReady& info = node.info();
  for (const absl::Status& valid :
       {CheckAveraged(job, info.layout()), CheckTables(job, info.layout())}) {
    if (valid.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("node %d (%s): %s", node.node(), node.daemon(), valid.message()));
  }
  const std::string needs_epochs = NeedsEpochs(job, info.says_rates());
  if (info.samples_per_epoch() == 0 && !needs_epochs.empty()) {
    return absl::InvalidArgumentError(needs_epochs +
                                      " the samples per epoch, which the program does not say");
  }
  return absl::OkStatus();
}

absl::Status CheckNcclId(const JobNode& node, const std::string& id) {
  if (id.size() == kNcclIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("node %d (%s) gives an id of %d bytes for NCCL's ranks to meet by, not %d",
                      node.node(), node.daemon(), id.size(), kNcclIdBytes));
}

}  // namespace strata::server
