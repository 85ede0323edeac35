#include "server/shard/shard_budget.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/job/optimizer.h"
#include "common/trace/trace_log.h"
#include "compression/encoder.h"
#include "server/shard/shard_plan.h"

namespace strata::server {
namespace {

void AddCodecs(const ShardPlan& plan, uint64_t own, uint64_t chunk, MemoryFormula* need) {
  const AnswerRules& answers = plan.rules.answers;
  const wire::Codec codec = kernels::CodecOf(answers.compression.compression);
  if (codec != wire::Codec::kNone) {
    const uint64_t copies = answers.shared ? 2 : plan.nodes.size();
    need->Add(absl::StrFormat("nodes' copies %d x %s", copies, BytesText(own)),
              SaturatingProduct(copies, own));
  }
  const uint64_t chunks =
      (plan.rules.push_codec != wire::Codec::kNone || plan.rules.takes_sparse ? 1 : 0) +
      (codec == wire::Codec::kSparse ? 3 : 0);
  if (chunks == 0) return;
  need->Add(absl::StrFormat("codec's work space %d x %s", chunks, BytesText(chunk)),
            chunks * chunk);
}

}  // namespace

absl::StatusOr<MemoryFormula> ShardMemoryOf(const proto::JobRecord& record, ShardId own_shard) {
  const absl::StatusOr<ShardPlan> plan = PlanOf(record, own_shard);
  if (!plan.ok()) return plan.status();
  uint64_t own = 0, chunk = 0;
  for (const OwnChunk& one : plan->chunks) {
    own += uint64_t{one.elements} * sizeof(float);
    chunk = std::max(chunk, uint64_t{one.elements} * sizeof(float));
  }
  const uint64_t nodes = plan->nodes.size();
  const uint64_t window = std::max<uint64_t>(1, record.job().window());
  // Of one node: what it may have pushed without an answer.
  const uint64_t unanswered = std::min(SaturatingProduct(window, chunk), own);
  MemoryFormula need;
  need.Add("weights", own);
  need.Add("chunk in update", chunk);
  if (const int vectors = StateVectors(plan->rules.update.optimizer.kind); vectors > 0) {
    need.Add(absl::StrFormat("optimizer state %d x %s", vectors, BytesText(own)), own * vectors);
  }
  if (plan->rules.compensation || plan->rules.is_elastic) {
    need.Add(absl::StrFormat("nodes' versions %d x %s", nodes, BytesText(own)),
             SaturatingProduct(nodes, own));
  }
  if (plan->rules.compensation && plan->rules.compensation->adaptive) {
    need.Add("mean squares", own);
  }
  if (plan->rules.compensation) need.Add("gradient in correction", chunk);
  if (plan->rules.is_elastic) need.Add("distance of a node", chunk);
  AddCodecs(*plan, own, chunk, &need);
  const std::string pushes = absl::StrFormat("x %d x %s", window, BytesText(chunk));
  if (plan->rules.policy.applies_per_clock() && nodes > 1) {
    const uint64_t leaves = HeldMax(plan->rules.order, nodes);
    const uint32_t quorum = plan->rules.policy.quorum();
    const uint64_t saved = quorum > 0 ? 0 : 1;
    const uint64_t waiting = SaturatingProduct(SaturatingProduct(nodes, window) - saved, chunk);
    const uint64_t one_clock = SaturatingProduct(leaves, own);
    need.Add(waiting < one_clock ? absl::StrFormat("held sums (%d x %d - %d) x %s", nodes, window,
                                                   saved, BytesText(chunk))
                                 : absl::StrFormat("held sums %d x %s", leaves, BytesText(own)),
             std::min(waiting, one_clock));
    if (quorum > 0 && quorum < nodes) {
      need.Add(absl::StrFormat("late pushes %d x %s", nodes - quorum, BytesText(own)),
               SaturatingProduct(nodes - quorum, own));
      need.Add("late push in addition", chunk);
    }
    const uint64_t ahead = plan->rules.policy.open_clocks_max() - 1;
    if (ahead > 0) {
      need.Add(absl::StrFormat("clocks ahead %d x %d x %s", ahead, leaves, BytesText(own)),
               SaturatingProduct(SaturatingProduct(ahead, leaves), own));
    }
  }
  if (IsTraced(record.job())) need.Add("trace", kTraceLogBytes);
  need.Add(absl::StrFormat("messages 2 x %d %s", nodes, pushes),
           SaturatingProduct(2 * nodes, unanswered));
  return need;
}

}  // namespace strata::server
