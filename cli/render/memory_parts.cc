#include "cli/render/memory_parts.h"

#include "common/limits/memory_ledger.h"
#include "server/shard/shard_budget.h"
#include "worker/aggregator/device/gpu_budget.h"
#include "worker/aggregator/host/node_budget.h"

namespace strata::cli {
namespace {

// Each shard's formula looks at every chunk.
constexpr uint64_t kLooksMax = 1 << 24;

using Parts = google::protobuf::RepeatedPtrField<proto::MemoryPart>;

void Fill(const MemoryFormula& formula, double model_bytes, Parts* parts) {
  for (const MemoryFormula::Part& part : formula.parts) {
    proto::MemoryPart* shown = parts->Add();
    shown->set_name(part.what);
    shown->set_limit_bytes(part.bytes);
    shown->set_model_sizes(static_cast<double>(part.bytes) / model_bytes);
  }
}

// Of the node's GPUs together. How many there are is known by what its daemon promises in all.
MemoryFormula GpuFormulaOf(const proto::JobRecord& record, const proto::JobNodeStatus& node) {
  for (uint32_t gpus = 1; gpus <= node.ranks(); ++gpus) {
    MemoryFormula formula = worker::MemoryOfGpus(record.job(), record.layout().elements(), gpus,
                                                 node.ranks(), record.placement());
    if (formula.total() == node.gpu_memory_limit_bytes()) return formula;
  }
  return {};
}

}  // namespace

void AddMemoryParts(const proto::JobRecord& record, proto::JobStatus* status) {
  const proto::Job& job = record.job();
  const double model_bytes = static_cast<double>(record.layout().elements()) * sizeof(float);
  const uint64_t looks = uint64_t{status->chunks()} * status->shards_size();
  if (status->chunks() == 0 || looks > kLooksMax || job.exchange() == proto::Job::NONE) return;
  const auto nodes = static_cast<uint32_t>(record.view().nodes_size());
  for (proto::JobNodeStatus& node : *status->mutable_nodes()) {
    Fill(worker::NodeMemoryNeed(job, nodes, record.layout().elements(), node.ranks(),
                                record.placement()),
         model_bytes, node.mutable_memory_parts());
    Fill(GpuFormulaOf(record, node), model_bytes, node.mutable_gpu_memory_parts());
  }
  for (int i = 0; i < status->shards_size(); ++i) {
    const absl::StatusOr<MemoryFormula> formula = server::ShardMemoryNeed(record, ShardId(i));
    if (!formula.ok()) continue;
    Fill(*formula, model_bytes, status->mutable_shards(i)->mutable_memory_parts());
  }
}

}  // namespace strata::cli
