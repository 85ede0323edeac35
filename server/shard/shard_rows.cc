#include "server/shard/shard_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "common/buffer_pool.h"
#include "common/require.h"
#include "rows/row_batch.h"
#include "rows/row_key.h"

namespace strata::server {

using wire::ErrorCode;

absl::StatusOr<std::unique_ptr<ShardRows>> ShardRows::Create(const RowsPlan& plan, size_t nodes) {
  std::vector<std::unique_ptr<rows::RowTable>> tables;
  for (const rows::TableSpec& spec : plan.tables) {
    auto table = rows::RowTable::Create(spec, plan.bucket_bits);
    if (!table.ok()) return table.status();
    tables.push_back(*std::move(table));
  }
  return absl::WrapUnique(new ShardRows(plan, nodes, std::move(tables)));
}

ShardRows::ShardRows(const RowsPlan& plan, size_t nodes,
                     std::vector<std::unique_ptr<rows::RowTable>> tables)
    : plan_(plan),
      tables_(std::move(tables)),
      buckets_(plan.buckets.size(), Bucket{.nodes = ChunkNodes(nodes)}),
      is_here_(size_t{1} << plan.bucket_bits) {
  for (const uint32_t bucket : plan.buckets) is_here_[bucket] = true;
}

ShardRows::Pushed ShardRows::OnPush(size_t index, size_t node, const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  Bucket& bucket = buckets_[index];
  Pushed pushed{.result = CheckClock(bucket, node, header)};
  if (pushed.result.error != ErrorCode::kNone) return pushed;
  std::optional<wire::DecodedRows> rows;
  if ((header.flags & wire::kFlagEmpty) == 0) {
    pushed.result = Decode(index, frame, &rows);
    if (pushed.result.error == ErrorCode::kNone) pushed.result = CheckFinite(*rows);
    if (pushed.result.error != ErrorCode::kNone) return pushed;
  }
  NodeProgress& progress = bucket.nodes[node];
  if (header.clock < progress.received) {
    pushed.result.duplicate = true;
    pushed.staleness = progress.versions_behind;
  } else {
    pushed.staleness = progress.versions_behind =
        static_cast<uint32_t>(std::min<uint64_t>(bucket.version - header.base_version, UINT32_MAX));
    if (rows && header.sample_count > 0) {
      const uint64_t refused = Apply(bucket, *rows, header.sample_count, pushed.staleness);
      pushed.refused = static_cast<uint32_t>(std::min<uint64_t>(refused, UINT32_MAX));
    }
    ++bucket.version;
    ++progress.received;
    progress.incarnation = header.incarnation;
    progress.checksum = header.payload_checksum;
    progress.samples = header.sample_count;
  }
  if (rows) pushed.wanted = Wanted(*rows);
  return pushed;
}

PushResult ShardRows::CheckClock(const Bucket& bucket, size_t node,
                                 const wire::Header& header) const {
  const NodeProgress& progress = bucket.nodes[node];
  if (header.clock > progress.received) {
    return RefusePush(ErrorCode::kBeyondWindow,
                      absl::StrFormat("clock %d, expected %d", header.clock, progress.received));
  }
  if (header.clock < progress.received) {
    const bool is_last = header.clock + 1 == progress.received;
    const bool both_known = header.payload_checksum != 0 && progress.checksum != 0;
    const bool differs = (both_known && header.payload_checksum != progress.checksum) ||
                         header.sample_count != progress.samples;
    if (!is_last || header.incarnation != progress.incarnation || !differs) return {};
    return RefusePush(ErrorCode::kConflict, "other content than before");
  }
  if (progress.retired) return RefusePush(ErrorCode::kBeyondWindow, "the node has retired");
  if (header.base_version > bucket.version) {
    return RefusePush(
        ErrorCode::kBeyondWindow,
        absl::StrFormat("base_version %d of %d", header.base_version, bucket.version));
  }
  return {};
}

PushResult ShardRows::Decode(std::optional<size_t> bucket, const wire::Frame& frame,
                             std::optional<wire::DecodedRows>* rows) const {
  auto decoded =
      wire::DecodedRows::Decode(frame.payload, frame.header.element_count, plan_.columns);
  if (!decoded.ok()) {
    return RefusePush(ErrorCode::kMalformed, std::string(decoded.status().message()));
  }
  for (const auto& sections : {decoded->pushed(), decoded->wanted()}) {
    for (const wire::RowsSection& section : sections) {
      const rows::TableSpec& spec = plan_.tables[section.table];
      for (const uint64_t id : section.ids) {
        const uint64_t at = rows::HighBits(rows::HashOf(spec.seed, id), plan_.bucket_bits);
        if (bucket ? at == plan_.buckets[*bucket] : is_here_[at]) continue;
        return RefusePush(
            ErrorCode::kWrongChunk,
            absl::StrFormat("table \"%s\": id %d lies in bucket %d", spec.name, id, at));
      }
    }
  }
  *rows = *std::move(decoded);
  return {};
}

PushResult ShardRows::CheckFinite(const wire::DecodedRows& rows) const {
  for (const wire::RowsSection& section : rows.pushed()) {
    const rows::TableSpec& spec = plan_.tables[section.table];
    const size_t count = section.ids.size() * spec.columns;
    const size_t at = rows::FirstNotFinite(section.values, count);
    if (at == count) continue;
    return RefusePush(ErrorCode::kNotFinite,
                      absl::StrFormat("table \"%s\": id %d: %s", spec.name,
                                      section.ids[at / spec.columns], kNotFiniteText));
  }
  return {};
}

uint64_t ShardRows::Apply(const Bucket& bucket, const wire::DecodedRows& rows, uint32_t samples,
                          uint32_t staleness) {
  const auto clock = static_cast<uint32_t>(std::min<uint64_t>(bucket.nodes.MinClock(), UINT32_MAX));
  const float damping = plan_.damps && staleness > 1 ? 1.0f / static_cast<float>(staleness) : 1.0f;
  uint64_t refused = 0;
  for (const wire::RowsSection& section : rows.pushed()) {
    const rows::RowStep step{.lr = section.rate * damping,
                             .gradient_scale = static_cast<float>(1.0 / samples),
                             .number = bucket.version + 1};
    refused += tables_[section.table]->Update(section.ids, section.values, step, clock).refused;
  }
  return refused;
}

Bytes ShardRows::Wanted(const wire::DecodedRows& rows) const {
  if (rows.wanted_values() == 0) return Bytes();
  const size_t bytes = rows.wanted_values() * sizeof(float);
  const std::shared_ptr<std::byte> buffer = AlignedMemory(bytes);
  STRATA_REQUIRE(buffer != nullptr);
  auto* to = reinterpret_cast<float*>(buffer.get());
  for (const wire::RowsSection& section : rows.wanted()) {
    tables_[section.table]->Lookup(section.ids, to);
    to += section.ids.size() * plan_.columns[section.table];
  }
  return Bytes(buffer, buffer.get(), bytes);
}

absl::StatusOr<Bytes> ShardRows::Lookup(const wire::Frame& frame) const {
  std::optional<wire::DecodedRows> rows;
  const PushResult decoded = Decode(std::nullopt, frame, &rows);
  if (decoded.error != ErrorCode::kNone) return absl::InvalidArgumentError(decoded.reason);
  if (!rows->pushed().empty()) return absl::InvalidArgumentError("LOOKUP pushes rows");
  return Wanted(*rows);
}

void ShardRows::OnRetire(size_t node) {
  for (Bucket& bucket : buckets_) bucket.nodes[node].retired = true;
}

uint64_t ShardRows::rows() const {
  uint64_t rows = 0;
  for (const auto& table : tables_) rows += table->size();
  return rows;
}

size_t ShardRows::memory_bytes() const {
  size_t bytes = 0;
  for (const auto& table : tables_) bytes += table->memory_bytes();
  return bytes;
}

}  // namespace strata::server
