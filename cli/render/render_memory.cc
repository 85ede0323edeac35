#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/render/render.h"
#include "cli/render/render_daemons.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "common/os/memory_ledger.h"
#include "server/shard/shard_budget.h"
#include "worker/aggregator/core/node_budget.h"
#include "worker/aggregator/device/gpu_budget.h"

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

// Returns the formula for all GPUs of a node. Their number follows from the daemon's total.
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

namespace {

struct Sum {
  uint64_t bytes = 0;
  double model_sizes = 0;
};

using RenderMemoryParts = google::protobuf::RepeatedPtrField<proto::MemoryPart>;

Sum SumOfParts(const RenderMemoryParts& parts) {
  Sum sum;
  for (const proto::MemoryPart& part : parts) {
    sum.bytes += part.limit_bytes();
    sum.model_sizes += part.model_sizes();
  }
  return sum;
}

Row RowOf(const std::string& whose, const std::string& part, uint64_t bytes, double model_sizes) {
  return {whose, part, MemoryText(bytes), absl::StrFormat("%.3f", model_sizes)};
}

// `name` of the one that may take most, and the parts that `parts_of` has of each. Nothing where
// they are none.
template <typename Holders, typename Name, typename PartsOf>
void AddRows(const Holders& holders, const std::string& noun, const Name& name,
             const PartsOf& parts_of, std::vector<Row>* rows) {
  if (holders.empty()) return;
  const auto largest =
      std::max_element(holders.begin(), holders.end(), [&](const auto& a, const auto& b) {
        return SumOfParts(parts_of(a)).bytes < SumOfParts(parts_of(b)).bytes;
      });
  if (parts_of(*largest).empty()) return;
  std::string whose = name(*largest);
  for (const proto::MemoryPart& part : parts_of(*largest)) {
    rows->push_back(RowOf(whose, part.name(), part.limit_bytes(), part.model_sizes()));
    whose = "  ";
  }
  const Sum one = SumOfParts(parts_of(*largest));
  rows->push_back(RowOf("  ", "sum", one.bytes, one.model_sizes));
  if (holders.size() == 1) return;
  Sum all;
  for (const auto& holder : holders) {
    const Sum sum = SumOfParts(parts_of(holder));
    all.bytes += sum.bytes;
    all.model_sizes += sum.model_sizes;
  }
  rows->push_back(
      RowOf("  ", absl::StrCat("of ", Counted(holders.size(), noun)), all.bytes, all.model_sizes));
}

}  // namespace

std::string MemoryTable(const proto::JobStatus& job) {
  std::vector<Row> rows = {{"  memory of", "for", "at most", "x the model"}};
  const auto parts_of = [](const auto& holder) -> const RenderMemoryParts& {
    return holder.memory_parts();
  };
  AddRows(
      job.nodes(), "node",
      [](const proto::JobNodeStatus& node) {
        return absl::StrFormat("  node %d (%s)", node.node(), node.daemon());
      },
      parts_of, &rows);
  AddRows(
      job.nodes(), "node",
      [](const proto::JobNodeStatus& node) { return absl::StrFormat("  GPUs of %d", node.node()); },
      [](const proto::JobNodeStatus& node) -> const RenderMemoryParts& {
        return node.gpu_memory_parts();
      },
      &rows);
  AddRows(
      job.shards(), "shard",
      [](const proto::JobShardStatus& shard) {
        return absl::StrFormat("  %s shard %d", shard.daemon(), shard.shard());
      },
      parts_of, &rows);
  const bool has_parts = !job.nodes().empty() && !job.nodes(0).memory_parts().empty();
  return has_parts ? Table(rows) : "";
}

}  // namespace strata::cli
