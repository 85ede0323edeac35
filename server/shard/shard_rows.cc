#include "server/shard/shard_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "common/buffer_pool.h"
#include "common/diverged.h"
#include "common/job/job.h"
#include "common/require.h"
#include "kernels/kernels.h"
#include "rows/row_key.h"

namespace strata::server {

using wire::ErrorCode;

namespace {

// Clocks of a node that are counted at a time: it is in few at once.
constexpr size_t kClocksCounted = 4;

uint32_t Saturated(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
}

}  // namespace

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
      cuts_(plan_, tables_),
      bytes_of_(nodes),
      newest_lookup_(nodes),
      index_of_(size_t{1} << plan.bucket_bits, kNotHere) {
  for (const uint32_t bucket : plan.buckets) {
    index_of_[bucket] = static_cast<uint32_t>(buckets_.size());
    buckets_.push_back(
        {.number = bucket, .nodes = ChunkNodes(nodes), .of_node = std::vector<OfNode>(nodes)});
  }
}

PushResult ShardRows::OnPush(size_t index, size_t node, const wire::Frame& frame,
                             std::vector<RowsAnswer>* due) {
  const wire::Header& header = frame.header;
  Bucket& bucket = buckets_[index];
  PushResult result = CheckClock(bucket, node, header);
  if (result.error == ErrorCode::kNone) result = bucket.failed;
  Rows rows;
  if (result.error == ErrorCode::kNone && (header.flags & wire::kFlagEmpty) == 0) {
    result = Decode(index, frame, &rows);
    if (result.error == ErrorCode::kNone) result = CheckFinite(*rows);
  }
  if (result.error != ErrorCode::kNone) return result;
  NodeProgress& progress = bucket.nodes[node];
  if (header.clock < progress.received) {
    const bool is_waiting = progress.waiting && header.clock + 1 == progress.received;
    if (is_waiting) return {.duplicate = true, .unchanged = true};
    const uint64_t gate = plan_.gate ? bucket.nodes.Gate() : 0;
    due->push_back(AnswerTo(index, node, gate, rows.get()));
    due->back().clock = header.clock;
    return {.duplicate = true};
  }
  if (plan_.is_per_clock) {
    result = CheckClockOf(bucket, header, rows);
    if (result.error != ErrorCode::kNone) return result;
  }
  if (rows != nullptr) result = CountBytes(node, header.clock, *rows);
  if (result.error != ErrorCode::kNone) return result;
  const uint64_t clock = bucket.nodes.MinClock();
  Take(&bucket, node, header, rows);
  if (!plan_.is_per_clock) {
    ApplyPush(&bucket, clock, node, header, rows);
    CutIfDue(index);
  }
  ApplyClocks(index, due);
  cuts_.OnChanged();
  // Without a gate nobody else waits.
  CollectDue(index, plan_.gate ? 0 : node, plan_.gate ? bucket.nodes.size() : node + 1, due);
  return {};
}

PushResult ShardRows::CountBytes(size_t node, uint64_t clock, const wire::DecodedRows& rows) {
  auto& of_clock = bytes_of_[node];
  const auto bytes_in = [&](absl::Span<const wire::RowsSection> sections) {
    uint64_t bytes = 0;
    for (const wire::RowsSection& section : sections) {
      bytes += RowBytes(section.ids.size(), plan_.columns[section.table]);
    }
    return bytes;
  };
  const uint64_t pushed = bytes_in(rows.pushed()), wanted = bytes_in(rows.wanted());
  const bool is_counted = of_clock.contains(clock) || of_clock.size() < kClocksCounted;
  if (!is_counted && clock < of_clock.begin()->first) {
    return RefusePush(ErrorCode::kBeyondWindow,
                      absl::StrFormat("the node was in clock %d", of_clock.rbegin()->first));
  }
  auto& [pushed_before, wanted_before] = of_clock[clock];
  if (pushed > plan_.bytes_per_step - pushed_before ||
      wanted > plan_.bytes_per_step - wanted_before) {
    return RefusePush(ErrorCode::kBeyondWindow,
                      absl::StrFormat("more than rows.bytes_per_step, %d", plan_.bytes_per_step));
  }
  pushed_before += pushed;
  wanted_before += wanted;
  while (of_clock.size() > kClocksCounted) of_clock.erase(of_clock.begin());
  return {};
}

void ShardRows::Take(Bucket* bucket, size_t node, const wire::Header& header, const Rows& rows) {
  NodeProgress& progress = bucket->nodes[node];
  OfNode& of_node = bucket->of_node[node];
  const uint64_t known = std::max(header.base_version, of_node.seen);
  progress.versions_behind = Saturated(bucket->version - known);
  ++progress.received;
  progress.waiting = true;
  progress.incarnation = header.incarnation;
  progress.checksum = header.payload_checksum;
  progress.samples = header.sample_count;
  of_node.refused = 0;
  of_node.wants = rows != nullptr && rows->wanted_values() > 0 ? rows : nullptr;
  if (!plan_.is_per_clock) return;
  OpenClock& clock = bucket->open[header.clock];
  clock.pushes.resize(bucket->nodes.size());
  clock.rates.resize(tables_.size());
  clock.samples += header.sample_count;
  if (rows == nullptr || rows->pushed().empty()) return;
  clock.pushes[node] = rows;
  for (const wire::RowsSection& section : rows->pushed()) {
    if (!clock.rates[section.table]) clock.rates[section.table] = {section.rate, node};
  }
}

PushResult ShardRows::CheckClockOf(const Bucket& bucket, const wire::Header& header,
                                   const Rows& rows) const {
  if (rows == nullptr || rows->pushed().empty()) return {};
  if (header.sample_count == 0) {
    return RefusePush(ErrorCode::kMalformed, "sample_count is 0, but rows are pushed");
  }
  const auto open = bucket.open.find(header.clock);
  if (open == bucket.open.end()) return {};
  for (const wire::RowsSection& section : rows->pushed()) {
    const auto& said = open->second.rates[section.table];
    if (!said || said->first == section.rate) continue;
    return RefusePush(
        ErrorCode::kConflict,
        absl::StrFormat("table \"%s\": rate %.9g, node %d says %.9g",
                        plan_.tables[section.table].name, section.rate, said->second, said->first));
  }
  return {};
}

void ShardRows::ApplyPush(Bucket* bucket, uint64_t clock, size_t node, const wire::Header& header,
                          const Rows& rows) {
  const NodeProgress& progress = bucket->nodes[node];
  if (rows != nullptr && header.sample_count > 0) {
    double share = 1.0;
    if (plan_.damps) share /= std::max<uint32_t>(1, progress.versions_behind);
    if (plan_.gate) {
      share =
          plan_.ranks.ShareOfClock(node, header.clock, header.sample_count, plan_.batch_per_rank);
    }
    uint64_t refused = 0;
    for (const wire::RowsSection& section : rows->pushed()) {
      refused += Update(*bucket, clock, section.table, {section.ids, section.values, nullptr},
                        static_cast<float>(section.rate * share), header.sample_count);
    }
    bucket->of_node[node].refused = Saturated(refused);
  }
  ++bucket->version;
}

// Clocks complete in order, because each node's pushes are contiguous.
void ShardRows::ApplyClocks(size_t index, std::vector<RowsAnswer>* due) {
  Bucket& bucket = buckets_[index];
  if (bucket.open.empty()) return;
  const uint64_t gate = bucket.nodes.Gate();
  while (bucket.failed.error == ErrorCode::kNone && !bucket.open.empty() &&
         bucket.open.begin()->first < gate) {
    const auto clock = bucket.open.begin();
    const absl::Status applied = ApplyClock(&bucket, clock->first, clock->second);
    if (!applied.ok()) {
      Fail(index, *clock, std::string(applied.message()), due);
    } else {
      cuts_.OnClock(index, clock->first + 1, bucket.version, {});
    }
    bucket.open.erase(clock);
  }
}

void ShardRows::Fail(size_t index, const std::pair<const uint64_t, OpenClock>& clock,
                     const std::string& why, std::vector<RowsAnswer>* due) {
  Bucket& bucket = buckets_[index];
  bucket.failed = RefusePush(ErrorCode::kNotFinite, why);
  for (size_t node = 0; node < bucket.nodes.size(); ++node) {
    // Whatever else it waits for, its job has come to its end.
    if (!std::exchange(bucket.nodes[node].waiting, false)) continue;
    due->push_back({.bucket = index, .node = node, .clock = clock.first});
    // No error is longer than the push that it answers.
    const Rows& push = clock.second.pushes[node];
    const size_t most = push == nullptr ? 0 : push->payload_bytes();
    due->back().error = RefusePush(ErrorCode::kNotFinite, why.substr(0, most));
  }
}

absl::Status ShardRows::ApplyClock(Bucket* bucket, uint64_t number, const OpenClock& clock) {
  std::vector<std::pair<uint32_t, Sum>> sums;
  for (uint32_t table = 0; table < tables_.size(); ++table) {
    if (!clock.rates[table]) continue;
    absl::StatusOr<Sum> sum = AddUp(clock, table, 0, clock.pushes.size());
    if (!sum.ok()) return sum.status();
    sums.emplace_back(table, *std::move(sum));
  }
  uint64_t refused = 0;
  for (const auto& [table, sum] : sums) {
    refused += Update(*bucket, number, table, sum, clock.rates[table]->first, clock.samples);
  }
  ++bucket->version;
  for (OfNode& node : bucket->of_node) node.refused = Saturated(refused);
  return absl::OkStatus();
}

absl::StatusOr<ShardRows::Sum> ShardRows::AddUp(const OpenClock& clock, uint32_t table,
                                                size_t begin, size_t end) const {
  if (end - begin == 1) {
    const Rows& push = clock.pushes[begin];
    if (push == nullptr) return Sum();
    for (const wire::RowsSection& section : push->pushed()) {
      if (section.table == table) return Sum{section.ids, section.values, nullptr};
    }
    return Sum();
  }
  const size_t middle = begin + kernels::SumTreeSplit(end - begin);
  absl::StatusOr<Sum> left = AddUp(clock, table, begin, middle);
  if (!left.ok()) return left;
  absl::StatusOr<Sum> right = AddUp(clock, table, middle, end);
  if (!right.ok() || left->ids.empty()) return right;
  if (right->ids.empty()) return left;
  absl::Status added = absl::OkStatus();
  if (left->own == nullptr) {
    left->own = std::make_unique<rows::RowGradients>(plan_.columns[table]);
    added = left->own->Add(left->ids, left->values);
  }
  if (added.ok()) added = left->own->Add(right->ids, right->values);
  if (!added.ok()) {
    return Prefixed(absl::StrFormat("table \"%s\": ", plan_.tables[table].name), added);
  }
  left->ids = left->own->ids();
  left->values = left->own->sums();
  return left;
}

uint64_t ShardRows::Update(const Bucket& bucket, uint64_t clock, uint32_t table, const Sum& sum,
                           float rate, uint64_t samples) {
  const rows::RowStep step{.lr = rate,
                           .gradient_scale = static_cast<float>(1.0 / static_cast<double>(samples)),
                           .number = bucket.version + 1};
  cuts_.OnChange(index_of_[bucket.number]);
  return tables_[table]->Update(sum.ids, sum.values, step, Saturated(clock)).refused;
}

void ShardRows::CutIfDue(size_t index) {
  if (plan_.cut_every == 0) return;
  const Bucket& bucket = buckets_[index];
  const uint64_t clock = bucket.nodes.Gate();
  // Once all nodes have retired there is nothing to go on from.
  if (clock == kClockInfinity) return;
  std::vector<uint64_t> applied;
  for (size_t node = 0; node < bucket.nodes.size(); ++node) {
    applied.push_back(bucket.nodes.AppliedBy(node, clock));
  }
  cuts_.OnClock(index, clock, bucket.version, applied);
}

void ShardRows::CollectDue(size_t index, size_t begin, size_t end, std::vector<RowsAnswer>* due) {
  Bucket& bucket = buckets_[index];
  const uint64_t gate = plan_.gate ? bucket.nodes.Gate() : 0;
  for (size_t node = begin; node < end; ++node) {
    NodeProgress& progress = bucket.nodes[node];
    if (!progress.waiting) continue;
    if (plan_.gate && !plan_.gate->MayAnswer(progress.received - 1, gate)) continue;
    progress.waiting = false;
    const Rows wants = std::exchange(bucket.of_node[node].wants, nullptr);
    due->push_back(AnswerTo(index, node, gate, wants.get()));
  }
}

RowsAnswer ShardRows::AnswerTo(size_t index, size_t node, uint64_t gate,
                               const wire::DecodedRows* wants) const {
  const Bucket& bucket = buckets_[index];
  const uint64_t clock = bucket.nodes[node].received - 1;
  RowsAnswer answer = {.bucket = index,
                       .node = node,
                       .clock = clock,
                       .staleness = bucket.nodes[node].versions_behind,
                       .refused = bucket.of_node[node].refused};
  if (plan_.gate) answer.staleness = StalenessGate::StalenessOf(clock, gate);
  if (wants != nullptr) answer.wanted = Wanted(*wants);
  return answer;
}

PushResult ShardRows::CheckClock(const Bucket& bucket, size_t node,
                                 const wire::Header& header) const {
  const NodeProgress& progress = bucket.nodes[node];
  if (header.clock >= progress.received) {
    return CheckProgress(progress, header.clock, header.base_version, bucket.version);
  }
  const bool is_last = header.clock + 1 == progress.received;
  const bool differs = is_last && header.incarnation == progress.incarnation &&
                       progress.HasOtherContent(header.payload_checksum, header.sample_count);
  return differs ? RefuseOtherContent() : PushResult();
}

PushResult ShardRows::Decode(std::optional<size_t> bucket, const wire::Frame& frame,
                             Rows* rows) const {
  auto decoded =
      wire::DecodedRows::Decode(frame.payload, frame.header.element_count, plan_.columns);
  if (!decoded.ok()) {
    return RefusePush(ErrorCode::kMalformed, std::string(decoded.status().message()));
  }
  for (const auto& sections : {decoded->pushed(), decoded->wanted()}) {
    for (const wire::RowsSection& section : sections) {
      const rows::TableSpec& spec = plan_.tables[section.table];
      for (const uint64_t id : section.ids) {
        const uint32_t at = rows::BucketOf(spec.seed, id, plan_.bucket_bits);
        if (bucket ? at == plan_.buckets[*bucket] : index_of_[at] != kNotHere) continue;
        return RefusePush(
            ErrorCode::kWrongChunk,
            absl::StrFormat("table \"%s\": id %d lies in bucket %d", spec.name, id, at));
      }
    }
  }
  *rows = std::make_shared<const wire::DecodedRows>(*std::move(decoded));
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

absl::StatusOr<Bytes> ShardRows::Lookup(size_t node, const wire::Frame& frame) {
  Rows rows;
  const PushResult decoded = Decode(std::nullopt, frame, &rows);
  if (decoded.error != ErrorCode::kNone) return absl::InvalidArgumentError(decoded.reason);
  if (!rows->pushed().empty()) return absl::InvalidArgumentError("LOOKUP pushes rows");
  // A repeated one may come after others.
  if (plan_.damps && frame.header.clock >= newest_lookup_[node]) {
    newest_lookup_[node] = frame.header.clock;
    Note(node, *rows);
  }
  return Wanted(*rows);
}

void ShardRows::Note(size_t node, const wire::DecodedRows& rows) {
  for (const wire::RowsSection& section : rows.wanted()) {
    const uint64_t seed = plan_.tables[section.table].seed;
    for (const uint64_t id : section.ids) {
      Bucket& bucket = buckets_[index_of_[rows::BucketOf(seed, id, plan_.bucket_bits)]];
      bucket.of_node[node].seen = bucket.version;
    }
  }
}

void ShardRows::OnRetire(size_t node, std::vector<RowsAnswer>* due) {
  for (size_t index = 0; index < buckets_.size(); ++index) {
    buckets_[index].nodes[node].retired = true;
    if (!plan_.is_per_clock) CutIfDue(index);
    ApplyClocks(index, due);
    CollectDue(index, 0, buckets_[index].nodes.size(), due);
  }
}

absl::Status ShardRows::Restore(const RowsImage& image) {
  const uint32_t count = 1u << plan_.bucket_bits;
  if (image.buckets != count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the checkpoint has %d buckets of rows, the job %d", image.buckets, count));
  }
  for (const BucketImage& part : image.parts) {
    const uint32_t index = index_of_[part.bucket];
    if (index == kNotHere) continue;
    Bucket& bucket = buckets_[index];
    bucket.is_restored = true;
    bucket.version = part.version;
    const bool are_same = part.applied.size() == bucket.nodes.size();
    for (size_t node = 0; node < bucket.nodes.size(); ++node) {
      bucket.nodes[node].received = are_same ? part.applied[node] : image.clock;
    }
  }
  cuts_.GoOnFrom(image.clock);
  for (const TableRows& rows : image.tables) {
    if (absl::Status stored = Store(rows); !stored.ok()) return stored;
  }
  return absl::OkStatus();
}

absl::Status ShardRows::Store(const TableRows& rows) {
  if (rows.table >= tables_.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the checkpoint has rows of table %d, the job %d tables", rows.table, tables_.size()));
  }
  rows::RowTable& table = *tables_[rows.table];
  const rows::TableSpec& spec = table.spec();
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table \"%s\": the checkpoint has %s", spec.name, what));
  };
  if (rows.columns != spec.columns || rows.state_columns != table.state_columns()) {
    return wrong(absl::StrFormat("rows of %d weights and %d values of state, not %d and %d",
                                 rows.columns, rows.state_columns, spec.columns,
                                 table.state_columns()));
  }
  TableRows own = {.columns = rows.columns, .state_columns = rows.state_columns};
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    const uint32_t at = rows::BucketOf(spec.seed, rows.ids[row], plan_.bucket_bits);
    if (index_of_[at] == kNotHere) continue;
    if (!buckets_[index_of_[at]].is_restored) {
      return wrong(absl::StrFormat("id %d among rows of other buckets than %d", rows.ids[row], at));
    }
    own.ids.push_back(rows.ids[row]);
    own.clocks.push_back(rows.clocks[row]);
    own.pushes.push_back(rows.pushes[row]);
    const float* const weights = &rows.weights[row * rows.columns];
    own.weights.insert(own.weights.end(), weights, weights + rows.columns);
    const float* const state = rows.state.data() + row * rows.state_columns;
    own.state.insert(own.state.end(), state, state + rows.state_columns);
  }
  const rows::RowTable::Counts counts = table.Restore(own);
  if (counts.refused > 0) {
    // The checkpoint is whole.
    return absl::FailedPreconditionError(
        wrong(absl::StrFormat("%d rows that have no room: capacity is %d", counts.refused,
                              spec.capacity))
            .message());
  }
  return counts.stored == own.ids.size() ? absl::OkStatus() : wrong("a row twice");
}

absl::Status ShardRows::CheckRestored() const {
  for (size_t index = 0; index < buckets_.size(); ++index) {
    if (buckets_[index].is_restored) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("the checkpoint has no rows of bucket %d", plan_.buckets[index]));
  }
  return absl::OkStatus();
}

size_t ShardRows::memory_bytes() const {
  size_t bytes = cuts_.bytes();
  for (const auto& table : tables_) bytes += table->memory_bytes();
  for (const Bucket& bucket : buckets_) {
    for (const auto& [clock, open] : bucket.open) {
      for (const Rows& push : open.pushes) bytes += push == nullptr ? 0 : push->memory_bytes();
    }
    for (size_t node = 0; node < bucket.of_node.size(); ++node) {
      // The pushes of an open clock are counted above.
      const Rows& wants = bucket.of_node[node].wants;
      if (wants != nullptr && (wants->pushed().empty() || !plan_.is_per_clock)) {
        bytes += wants->memory_bytes();
      }
    }
  }
  return bytes;
}

}  // namespace strata::server
