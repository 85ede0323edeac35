#include "server/coordinator/jobs/node_agreement.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
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
  return Difference(a.layout(), b.layout());
}

// Returns the first field that is a function of epochs, with its verb; empty when there is none.
std::string NeedsEpochs(const proto::Job& job) {
  const proto::Schedule& schedule = job.schedule();
  if (schedule.warmup_epochs() > 0 || schedule.has_step() || schedule.has_cosine()) {
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

absl::Status CheckNodesAgree(const proto::Job& job, const std::vector<JobNode>& nodes) {
  STRATA_REQUIRE(!nodes.empty());
  const proto::NodeReady& first = nodes[0].info;
  for (const JobNode& node : nodes) {
    absl::Status valid = ValidateLayout(node.info.layout());
    if (valid.ok()) valid = CheckAveraged(job, node.info.layout());
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
  const std::string needs_epochs = NeedsEpochs(job);
  if (first.samples_per_epoch() == 0 && !needs_epochs.empty()) {
    return absl::InvalidArgumentError(needs_epochs +
                                      " the samples per epoch, which the program does not say");
  }
  return absl::OkStatus();
}

absl::Status CheckNcclId(const JobNode& node) {
  if (node.info.nccl_id().size() == kNcclIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("node %d (%s) gives an id of %d bytes for NCCL's ranks to meet by, not %d",
                      node.node, node.daemon, node.info.nccl_id().size(), kNcclIdBytes));
}

}  // namespace strata::server
