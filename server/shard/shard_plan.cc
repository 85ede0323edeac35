#include "server/shard/shard_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/connections.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/placement.h"
#include "common/os/limits.h"
#include "numerics/encoder.h"
#include "rows/row_table.h"

namespace strata::server {
namespace {

absl::Status CheckView(const proto::View& view) {
  if (view.nodes().empty()) return absl::InvalidArgumentError("view.nodes is empty");
  std::vector<uint32_t> ids;
  for (const proto::LogicalNode& node : view.nodes()) {
    if (node.ranks() == 0) {
      return absl::InvalidArgumentError(absl::StrFormat("view: node %d has no ranks", node.node()));
    }
    ids.push_back(node.node());
  }
  std::sort(ids.begin(), ids.end());
  if (auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end()) {
    return absl::InvalidArgumentError(absl::StrFormat("view: node %d stands there twice", *twice));
  }
  return absl::OkStatus();
}

// Plans the nodes in order of their first rank; ranks must be contiguous.
absl::Status PlanNodes(const proto::JobRecord& record, ShardPlan* plan) {
  const proto::View& view = record.view();
  if (absl::Status status = CheckView(view); !status.ok()) return status;
  std::vector<proto::LogicalNode> nodes(view.nodes().begin(), view.nodes().end());
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return a.first_rank() < b.first_rank(); });
  for (const proto::LogicalNode& node : nodes) {
    if (node.first_rank() != plan->ranks.total) {
      return absl::InvalidArgumentError(absl::StrFormat("view: node %d begins at rank %d, not %d",
                                                        node.node(), node.first_rank(),
                                                        plan->ranks.total));
    }
    plan->nodes.push_back(NodeId(node.node()));
    plan->ranks.of_node.push_back(node.ranks());
    plan->ranks.total += node.ranks();
  }
  absl::StatusOr<Views> views = Views::Of(record);
  if (!views.ok()) return views.status();
  plan->ranks.views = plan->views = std::make_shared<Views>(*std::move(views));
  for (size_t i = 0; i < plan->nodes.size(); ++i) {
    const bool is_there = plan->views->Has(plan->nodes[i], plan->views->first_clock());
    if (!is_there) plan->rules.absent.push_back(i);
  }
  if (plan->rules.absent.size() < plan->nodes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError("view: all nodes are absent");
}

absl::Status CheckPlacement(const proto::Placement& placement, ShardId own_shard) {
  const uint32_t elements = placement.chunk_elements();
  if (elements == 0 || elements > kChunkElementsMax) {
    return absl::InvalidArgumentError(absl::StrFormat("placement.chunk_elements is %d, not 1 to %d",
                                                      elements, kChunkElementsMax));
  }
  if (own_shard.value() >= placement.shard_endpoints_size()) {
    return absl::InvalidArgumentError(absl::StrFormat("placement has %d shards, none of number %d",
                                                      placement.shard_endpoints_size(),
                                                      own_shard.value()));
  }
  return absl::OkStatus();
}

absl::Status PlanChunks(const proto::JobRecord& record, ShardId own_shard, ShardPlan* plan) {
  const proto::Placement& placement = record.placement();
  if (absl::Status status = CheckPlacement(placement, own_shard); !status.ok()) return status;
  if (absl::Status status = ValidateLayout(record.layout()); !status.ok()) return status;
  const ChunkMap map(record.layout().elements(), placement.chunk_elements());
  if (map.chunks() != placement.shard_of_chunk_size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("placement.shard_of_chunk has %d chunks, the arena %d",
                        placement.shard_of_chunk_size(), map.chunks()));
  }
  for (uint32_t chunk = 0; chunk < map.chunks(); ++chunk) {
    const uint32_t shard = placement.shard_of_chunk(chunk);
    if (shard >= placement.shard_endpoints_size()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("placement: chunk %d lies on shard %d of %d", chunk, shard,
                          placement.shard_endpoints_size()));
    }
    if (shard != own_shard.value()) continue;
    const ChunkId id(chunk);
    plan->chunks.push_back({.id = id,
                            .elements = map.ElementsOf(id),
                            .begin = uint64_t{chunk} * map.chunk_elements(),
                            .runs = OptimizerRuns(record.layout(), map, id)});
  }
  plan->connections = ConnectionsFor(record.job(), plan->chunks.size());
  for (size_t i = 0; i < plan->chunks.size(); ++i) {
    plan->chunks[i].connection = ConnectionOf(i, plan->connections);
  }
  return absl::OkStatus();
}

absl::Status PlanRows(const proto::JobRecord& record, ShardId own_shard, ShardPlan* plan) {
  RowsPlan& rows = plan->rows;
  absl::StatusOr<std::vector<rows::TableSpec>> tables = rows::TablesOf(record.layout());
  if (!tables.ok()) return tables.status();
  rows.tables = *std::move(tables);
  for (const rows::TableSpec& table : rows.tables) rows.columns.push_back(table.columns);
  const proto::Placement& placement = record.placement();
  const auto buckets = static_cast<uint32_t>(placement.shard_of_bucket_size());
  const bool is_right = rows.tables.empty() ? buckets == 0 : IsBucketCount(buckets);
  if (!is_right) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "placement.shard_of_bucket has %d buckets, for %d tables", buckets, rows.tables.size()));
  }
  if (rows.tables.empty()) return absl::OkStatus();
  rows.bucket_bits = static_cast<uint32_t>(std::countr_zero(buckets));
  rows.connection = plan->connections;
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    const uint32_t shard = placement.shard_of_bucket(static_cast<int>(bucket));
    if (shard >= static_cast<uint32_t>(placement.shard_endpoints_size())) {
      return absl::InvalidArgumentError(
          absl::StrFormat("placement: bucket %d lies on shard %d of %d", bucket, shard,
                          placement.shard_endpoints_size()));
    }
    if (shard == own_shard.value()) rows.buckets.push_back(bucket);
  }
  const proto::Consistency& consistency = RowsConsistency(record.job());
  rows.bytes_per_step = RowBytesPerStep(record.job());
  rows.cut_every = ClocksPerCheckpoint(record.job());
  constexpr uint64_t kFewBytes = 64 << 20;
  uint64_t bytes = 0;
  for (const rows::TableSpec& table : rows.tables) {
    bytes += rows::MemoryBytesMax(table, rows.bucket_bits, rows.buckets.size());
  }
  rows.kept_bytes = std::max(bytes / 4, std::min(2 * bytes, kFewBytes));
  rows.damps = consistency.async().damping() == proto::Async::INVERSE_STALENESS;
  if (consistency.has_async()) return absl::OkStatus();
  rows.gate = StalenessGate(consistency.lazy().staleness());
  rows.is_per_clock = consistency.lazy().apply() == proto::Lazy::PER_CLOCK;
  rows.ranks = plan->ranks;
  rows.batch_per_rank = SamplesPerRank(record.job());
  return absl::OkStatus();
}

// Returns whether the sum of a clock has at most as many bytes as its pushes.
bool SumsAreSmaller(const ChunkRules& rules) {
  constexpr size_t kElements = 1 << 20;
  if (rules.push_codec == wire::Codec::kSparse) return false;
  const uint64_t push_bytes = wire::EncodedBytesMax(rules.push_codec, kElements);
  return rules.nodes * push_bytes >= kElements * sizeof(float);
}

}  // namespace

uint32_t ChangesBefore(const ShardPlan& plan, uint64_t clock) {
  return plan.views->NumberAt(clock) - plan.view;
}

uint64_t CutBytes(const ShardPlan& plan) {
  if (plan.rules.cut_every == 0) return 0;
  uint64_t elements = 0;
  for (const OwnChunk& chunk : plan.chunks) elements += chunk.elements;
  return elements * sizeof(float) * (1 + plan.rules.update.state_vectors_max());
}

absl::StatusOr<ShardPlan> MakeShardPlan(const proto::JobRecord& record, ShardId own_shard) {
  ShardPlan plan;
  plan.job = JobId(record.job_id());
  plan.shard = own_shard;
  plan.token = record.token();
  plan.cluster = record.cluster();
  plan.view = record.view().number();
  plan.generation = plan.heard_from = ShardGeneration(record.placement(), own_shard);
  plan.resumes = record.has_resume();
  if (absl::Status status = PlanNodes(record, &plan); !status.ok()) return status;
  if (absl::Status status = PlanChunks(record, own_shard, &plan); !status.ok()) return status;
  if (absl::Status status = PlanRows(record, own_shard, &plan); !status.ok()) return status;
  const proto::Job& job = record.job();
  plan.rules.nodes = plan.nodes.size();
  plan.rules.takes_first_weights = record.takes_first_weights();
  plan.rules.says_rates = record.says_rates();
  plan.rules.cut_every = ClocksPerCheckpoint(job);
  absl::StatusOr<std::unique_ptr<ConsistencyMode>> mode = CreateConsistencyMode(job, plan.ranks);
  if (!mode.ok()) return mode.status();
  plan.rules.mode = *std::move(mode);
  const int shard = static_cast<int>(own_shard.value());
  if (shard < record.placement().backup_endpoints_size()) {
    plan.backup = record.placement().backup_endpoints(shard);
  }
  plan.waits_unprotected = job.while_unprotected() == proto::Job::WAIT;
  // Weights, optimizer state, mean square; and per node its copy, the weights it was given, and a
  // push of each clock that may be incomplete.
  plan.copy_vectors_max = 8 + plan.nodes.size() * (4 + job.consistency().lazy().staleness());
  plan.rules.push_codec = numerics::WireCodec(job.push());
  plan.rules.takes_sparse = job.consistency().lazy().has_significance();
  plan.logs_sums = plan.rules.mode->answers_alike() && SumsAreSmaller(plan.rules);
  plan.lets_begin_late = job.has_replace() || IsElastic(job);
  const bool is_exact = plan.rules.mode->answers_alike();
  const bool encodes = numerics::WireCodec(job.pull()) != wire::Codec::kNone;
  plan.rules.keeps_previous = job.has_replace() && is_exact && !encodes;
  plan.rules.answers = {
      .compression = numerics::MakeCompression(job.pull(), kernels::Feedback::kFollow),
      .shared = is_exact,
      .keeps_previous = job.has_replace() && is_exact && encodes};
  if (absl::Status status = plan.rules.answers.compression.Validate(); !status.ok()) return status;
  plan.rules.update =
      numerics::MakeUpdateRule(job, record.samples_per_epoch(), record.says_rates());
  plan.rules.update.marks_absent = record.marks_absent();
  // Encoders read the new weights again.
  plan.rules.update.far =
      record.layout().elements() * sizeof(float) >= kernels::kFarBytes &&
      plan.rules.answers.compression.compression == numerics::Compression::kNone;
  return plan;
}

}  // namespace strata::server
