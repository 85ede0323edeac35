#include "server/coordinator/jobs/node_agreement.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/program_optimizer.h"
#include "common/job/tensor_text.h"
#include "common/require.h"

namespace strata::server {
namespace {

constexpr size_t kNcclIdBytes = 128;

// Returns in words how two layouts differ; empty when they do not.
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
  return a.elements() == b.elements()
             ? ""
             : absl::StrFormat("%d and %d elements", a.elements(), b.elements());
}

// Returns the optimizer that the node's program names.
std::string Named(const proto::NodeReady& node) {
  return node.has_optimizer() ? OptimizerText(node.optimizer()) : "none";
}

// Returns in words how what two nodes are about to train differs; empty when it does not.
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
  return Difference(a.layout(), b.layout());
}

// Returns the first field that is a function of epochs, with its verb; empty when there is none.
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

// Returns the field of a job that would change tensors that become means, or lose parts of them, as
// ValidateJob refuses it with model.batch_norm: LAST_BATCH; empty when there is none.
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

// Checks a valid layout, which is a program's own. Errors: InvalidArgument naming tensor and field.
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

absl::Status CheckNodesAgree(const std::vector<JobNode>& nodes) {
  STRATA_REQUIRE(!nodes.empty());
  const proto::NodeReady& first = nodes[0].info;
  for (const JobNode& node : nodes) {
    if (node.absent) continue;
    if (const absl::Status valid = ValidateLayout(node.info.layout()); !valid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("node %d (%s): %s", node.node, node.daemon, valid.message()));
    }
    const std::string difference = Difference(first, node.info);
    if (difference.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("node 0 (%s) and node %d (%s) do not train the same: %s", nodes[0].daemon,
                        node.node, node.daemon, difference));
  }
  return absl::OkStatus();
}

absl::Status CheckTakesPlace(const proto::JobRecord& record, uint64_t total_steps,
                             const JobNode& node) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrFormat("node %d (%s)%s does not train what the job does: %s", node.node,
                        node.daemon, node.replaced ? ", which was begun again," : "", why));
  };
  proto::Job job = record.job();
  proto::Optimizer named = node.info.optimizer();
  // The record's optimizer is the program's with the limit that the job had set.
  if (named.clip_norm() == 0) named.set_clip_norm(job.optimizer().clip_norm());
  absl::Status same = TakeProgramOptimizer(node.info.has_optimizer() ? &named : nullptr,
                                           node.info.says_rates(), &job);
  if (same.ok()) same = ValidateLayout(node.info.layout());
  if (!same.ok()) return refuse(same.message());
  proto::NodeReady of_job = node.info;  // what the record does not say is the node's own matter
  *of_job.mutable_layout() = record.layout();
  of_job.set_samples_per_epoch(record.samples_per_epoch());
  of_job.set_total_steps(total_steps);
  of_job.set_takes_first_weights(record.takes_first_weights());
  of_job.set_says_rates(record.says_rates());
  of_job.set_can_resume(true);
  const std::string difference = Difference(of_job, node.info);
  return difference.empty() ? absl::OkStatus() : refuse(difference);
}

absl::Status CheckFitsJob(const proto::Job& job, const JobNode& node) {
  const proto::NodeReady& info = node.info;
  if (const absl::Status valid = CheckAveraged(job, info.layout()); !valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("node %d (%s): %s", node.node, node.daemon, valid.message()));
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
                      node.node, node.daemon, id.size(), kNcclIdBytes));
}

}  // namespace strata::server
