#include "server/shard/shard_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/job/optimizer.h"
#include "common/job/trace_log.h"
#include "common/os/limits.h"
#include "numerics/encoder.h"
#include "rows/row_table.h"
#include "server/shard/rows_cuts.h"
#include "server/shard/shard_plan.h"
#include "server/shard/shard_report.h"

namespace strata::server {
namespace {

void AddCodecs(const ShardPlan& plan, uint64_t own, uint64_t chunk, MemoryFormula* need) {
  const AnswerRules& answers = plan.rules.answers;
  const wire::Codec codec = numerics::WireCodec(answers.compression.compression);
  if (codec != wire::Codec::kNone) {
    const uint64_t copies = answers.shared ? (answers.keeps_previous ? 3 : 2) : plan.nodes.size();
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

absl::StatusOr<MemoryFormula> ShardMemoryNeed(const proto::JobRecord& record, ShardId own_shard) {
  const absl::StatusOr<ShardPlan> plan = MakeShardPlan(record, own_shard);
  if (!plan.ok()) return plan.status();
  uint64_t own = 0, chunk = 0;
  for (const OwnChunk& one : plan->chunks) {
    own += uint64_t{one.elements} * sizeof(float);
    chunk = std::max(chunk, uint64_t{one.elements} * sizeof(float));
  }
  const ShardSize size = {.nodes = plan->nodes.size(),
                          .window = std::max<uint64_t>(1, record.job().window()),
                          .own_bytes = own,
                          .chunk_bytes = chunk};
  // Bytes of one node's pushes that may be unanswered.
  const uint64_t unanswered = std::min(SaturatingProduct(size.window, chunk), own);
  MemoryFormula need;
  need.Add("weights", own);
  need.Add("chunk in update", chunk);
  if (plan->rules.keeps_previous) need.Add("weights of the clock before", own);
  if (record.takes_first_weights()) need.Add("first weights", own);
  if (const int vectors = plan->rules.update.state_vectors_max(); vectors > 0) {
    need.Add(absl::StrFormat("optimizer state %d x %s", vectors, BytesText(own)), own * vectors);
  }
  if (plan->rules.cut_every > 0) {
    const uint64_t vectors = 1 + plan->rules.update.state_vectors_max();
    need.Add(absl::StrFormat("checkpoints %d x %d x %s", kCutsHeldMax, vectors, BytesText(own)),
             SaturatingProduct(kCutsHeldMax * vectors, own));
  }
  plan->rules.mode->AddNodeVersions(size, &need);
  AddCodecs(*plan, own, chunk, &need);
  plan->rules.mode->AddHeldSums(size, &need);
  for (const rows::TableSpec& table : plan->rows.tables) {
    need.Add(absl::StrCat("table \"", table.name, "\""),
             rows::MemoryBytesMax(table, plan->rows.bucket_bits, plan->rows.buckets.size()));
  }
  if (!plan->rows.tables.empty()) {
    const uint64_t step = RowBytesPerStep(record.job());
    const uint64_t clocks = plan->rows.is_per_clock ? 1 + plan->rows.gate->bound() : 1;
    const uint64_t times = 2 * clocks + (plan->rows.is_per_clock ? 1 : 0);
    need.Add(absl::StrFormat("rows of steps %d x %d x %s", times, size.nodes, BytesText(step)),
             SaturatingProduct(times * size.nodes, step));
    if (plan->rows.cut_every > 0) {
      const uint64_t kept = plan->rows.kept_bytes, pieces = RowPieceBytesMax(plan->rows);
      need.Add(absl::StrFormat("rows of checkpoints %s and %s", BytesText(kept), BytesText(pieces)),
               kept + pieces);
    }
    need.Add(absl::StrFormat("rows looked up %d x %s", plan->ranks.total, BytesText(kRowSlotBytes)),
             plan->ranks.total * kRowSlotBytes);
  }
  if (IsTraced(record.job())) need.Add("trace", kTraceLogBytes);
  need.Add(absl::StrFormat("messages 2 x %d x %d x %s", size.nodes, size.window, BytesText(chunk)),
           SaturatingProduct(2 * size.nodes, unanswered));
  return need;
}

}  // namespace strata::server
