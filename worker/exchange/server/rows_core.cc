#include "worker/exchange/server/rows_core.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "common/buffer_pool.h"
#include "common/job/connections.h"
#include "common/job/job.h"
#include "common/job/placement.h"
#include "common/os/limits.h"
#include "common/require.h"
#include "rows/row_key.h"

namespace strata::worker {

using wire::Op;

namespace {

// Divides ids into groups, of which `group_of` returns an id's; the places in each ascend.
template <typename GroupOf>
std::vector<std::vector<uint32_t>> Divide(absl::Span<const uint64_t> ids, size_t groups,
                                          const GroupOf& group_of) {
  std::vector<std::vector<uint32_t>> places(groups);
  for (uint32_t place = 0; place < ids.size(); ++place) {
    places[group_of(ids[place])].push_back(place);
  }
  return places;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowsCore>> RowsCore::Create(const CoreOptions& options) {
  const proto::Placement& placement = options.record.placement();
  absl::StatusOr<std::vector<rows::TableSpec>> tables = rows::TablesOf(options.record.layout());
  if (!tables.ok()) return tables.status();
  const auto buckets = static_cast<uint32_t>(placement.shard_of_bucket_size());
  if (tables->empty() || !IsBucketCount(buckets)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "placement.shard_of_bucket has %d buckets, for %d tables", buckets, tables->size()));
  }
  for (const uint32_t shard : placement.shard_of_bucket()) {
    if (shard < static_cast<uint32_t>(placement.shard_endpoints_size())) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "placement.shard_of_bucket names shard %d of %d", shard, placement.shard_endpoints_size()));
  }
  return absl::WrapUnique(new RowsCore(options, *std::move(tables)));
}

RowsCore::RowsCore(const CoreOptions& options, std::vector<rows::TableSpec> tables)
    : options_(options),
      tables_(std::move(tables)),
      lookahead_(RowsLookahead(options.record.job())),
      clock_(options.record.resume().clock()),
      wanted_(lookahead_) {
  for (const rows::TableSpec& table : tables_) columns_.push_back(table.columns);
  const proto::Placement& placement = options.record.placement();
  bucket_bits_ = static_cast<uint32_t>(
      std::countr_zero(static_cast<uint32_t>(placement.shard_of_bucket_size())));
  std::vector<uint32_t> chunks(placement.shard_endpoints_size());
  for (const uint32_t shard : placement.shard_of_chunk()) ++chunks[shard];
  std::map<uint32_t, uint32_t> link_of_shard;
  for (const uint32_t shard : placement.shard_of_bucket()) {
    const auto [found, is_new] =
        link_of_shard.try_emplace(shard, static_cast<uint32_t>(links_.size()));
    buckets_.push_back({found->second, std::vector<uint64_t>(lookahead_)});
    if (!is_new) continue;
    LinkIdentity identity = MakeIdentity(options);
    identity.generation = ShardGeneration(placement, ShardId(shard));
    identity.hello.shard = shard;
    // Rows have the connection after those of chunks.
    identity.hello.connection = ConnectionsFor(options.record.job(), chunks[shard]);
    links_.emplace_back(LinkId(found->second), placement.shard_endpoints(static_cast<int>(shard)),
                        identity, options.timing);
  }
}

uint32_t RowsCore::BucketOf(uint32_t table, uint64_t id) const {
  return rows::BucketOf(tables_[table].seed, id, bucket_bits_);
}

std::vector<RowsCore::Divided> RowsCore::DivideByBucket(
    absl::Span<const wire::RowsSection> rows) const {
  std::vector<Divided> divided;
  for (const wire::RowsSection& of_table : rows) {
    divided.push_back({&of_table, Divide(of_table.ids, buckets_.size(), [&](uint64_t id) {
                         return BucketOf(of_table.table, id);
                       })});
  }
  return divided;
}

absl::Status RowsCore::Push(absl::Span<const wire::RowsSection> sums,
                            absl::Span<const wire::RowsSection> wanted, uint32_t samples,
                            absl::Time now, CoreActions* actions) {
  STRATA_REQUIRE(!is_pushing());
  if (absl::Status few = CheckBytes(BytesOf(sums)); !few.ok()) return NamedBy(options_.node, few);
  const std::vector<Divided> pushed = DivideByBucket(sums);
  std::vector<Divided> asked = DivideByBucket(wanted);
  if (!CheckBytes(BytesOf(wanted)).ok() || !Fit(pushed, asked)) asked.clear();
  unanswered_ = static_cast<uint32_t>(buckets_.size());
  for (uint32_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    absl::Status sent = PushTo(bucket, pushed, asked, samples, now, actions);
    if (!sent.ok()) return NamedBy(options_.node, sent);
  }
  std::map<uint32_t, Prefetched>& of_step = wanted_[clock_ % lookahead_];
  of_step.clear();
  for (Divided& one : asked) {
    const wire::RowsSection& rows = *one.rows;
    of_step[rows.table] = {.ids = {rows.ids.begin(), rows.ids.end()},
                           .values = std::vector<float>(rows.ids.size() * columns_[rows.table]),
                           .places = std::move(one.places)};
  }
  ++clock_;
  return absl::OkStatus();
}

uint64_t RowsCore::BytesOf(absl::Span<const wire::RowsSection> rows) const {
  uint64_t bytes = 0;
  for (const wire::RowsSection& of_table : rows) {
    bytes += RowBytes(of_table.ids.size(), columns_[of_table.table]);
  }
  return bytes;
}

bool RowsCore::Fit(const std::vector<Divided>& sums, const std::vector<Divided>& wanted) const {
  // Of a section besides ids and values.
  constexpr uint64_t kSectionBytes = 32;
  for (uint32_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    uint64_t bytes = 0;
    for (const auto* divided : {&sums, &wanted}) {
      for (const Divided& of : *divided) {
        bytes += kSectionBytes + RowBytes(of.places[bucket].size(), columns_[of.rows->table]);
      }
    }
    if (bytes > kFramePayloadBytesMax) return false;
  }
  return true;
}

absl::Status RowsCore::CheckBytes(uint64_t bytes) const {
  const uint64_t most = RowBytesPerStep(options_.record.job());
  if (bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%d bytes of rows in a step, more than rows.bytes_per_step, %d", bytes, most));
}

absl::Status RowsCore::PushTo(uint32_t bucket, const std::vector<Divided>& sums,
                              const std::vector<Divided>& wanted, uint32_t samples, absl::Time now,
                              CoreActions* actions) {
  // Spans of sections point into these.
  std::vector<std::vector<uint64_t>> ids;
  std::vector<std::vector<float>> values;
  ids.reserve(sums.size() + wanted.size());
  const auto own_ids = [&](const Divided& of) -> absl::Span<const uint64_t> {
    std::vector<uint64_t>& own = ids.emplace_back();
    own.reserve(of.places[bucket].size());
    for (const uint32_t place : of.places[bucket]) own.push_back(of.rows->ids[place]);
    return own;
  };
  std::vector<wire::RowsSection> pushed, asked;
  uint64_t count = 0;
  for (const Divided& of : sums) {
    const Places& own = of.places[bucket];
    if (own.empty()) continue;
    const size_t columns = columns_[of.rows->table];
    std::vector<float>& own_values = values.emplace_back(own.size() * columns);
    for (size_t row = 0; row < own.size(); ++row) {
      std::copy_n(of.rows->values + own[row] * columns, columns, &own_values[row * columns]);
    }
    count += own_values.size();
    pushed.push_back({.table = of.rows->table,
                      .rate = of.rows->rate,
                      .ids = own_ids(of),
                      .values = own_values.data()});
  }
  for (const Divided& of : wanted) {
    if (!of.places[bucket].empty()) asked.push_back({.table = of.rows->table, .ids = own_ids(of)});
  }
  wire::Header header;
  header.op = Op::kPushPull;
  header.key_space = wire::KeySpace::kRows;
  header.chunk = bucket;
  header.clock = clock_;
  header.base_version = buckets_[bucket].versions[clock_ % lookahead_];
  header.sample_count = samples;
  Bytes payload;
  if (pushed.empty() && asked.empty()) {
    header.flags = wire::kFlagEmpty;
  } else {
    const auto refuse = [&](uint64_t bytes) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "bucket %d: %d bytes of rows in a step, more than a message of 16 MiB holds: the job "
          "needs more rows.buckets than %d",
          bucket, bytes, buckets_.size()));
    };
    if (count > kFramePayloadBytesMax / sizeof(float)) return refuse(count * sizeof(float));
    header.element_count = static_cast<uint32_t>(count);
    payload = wire::EncodeRows(pushed, asked, columns_);
    if (payload.size() > kFramePayloadBytesMax) return refuse(payload.size());
  }
  links_[buckets_[bucket].link].Ask(header, std::move(payload), now, &actions->wire);
  return absl::OkStatus();
}

absl::Status RowsCore::Keep(const wire::Header& push, const ShardLink& link,
                            const wire::Frame& answer) {
  const uint32_t bucket = push.chunk;
  std::map<uint32_t, Prefetched>& of_step = wanted_[push.clock % lookahead_];
  uint64_t expected = 0;
  for (const auto& [table, rows] : of_step) {
    expected += rows.places[bucket].size() * uint64_t{columns_[table]};
  }
  if (answer.header.element_count != expected) {
    return absl::InternalError(
        absl::StrFormat("server %s answered a push to bucket %d with %d values instead of %d",
                        link.address(), bucket, answer.header.element_count, expected));
  }
  const float* from = answer.payload.floats();
  for (auto& [table, rows] : of_step) {
    const size_t columns = columns_[table];
    for (const uint32_t place : rows.places[bucket]) {
      std::copy_n(from, columns, &rows.values[place * columns]);
      from += columns;
    }
  }
  return absl::OkStatus();
}

bool RowsCore::FindPrefetched(uint32_t table, absl::Span<const uint64_t> ids,
                              Bytes* weights) const {
  const std::map<uint32_t, Prefetched>& of_step = wanted_[clock_ % lookahead_];
  const auto of_table = of_step.find(table);
  if (of_table == of_step.end()) return false;
  const Prefetched& rows = of_table->second;
  const size_t columns = columns_[table], bytes = ids.size() * columns * sizeof(float);
  const std::shared_ptr<std::byte> buffer = AlignedMemory(bytes);
  STRATA_REQUIRE(buffer != nullptr);
  auto* to = reinterpret_cast<float*>(buffer.get());
  size_t place = 0;
  for (const uint64_t id : ids) {
    while (place < rows.ids.size() && rows.ids[place] < id) ++place;
    if (place == rows.ids.size() || rows.ids[place] != id) return false;
    to = std::copy_n(&rows.values[place * columns], columns, to);
  }
  *weights = Bytes(buffer, buffer.get(), bytes);
  return true;
}

void RowsCore::LookUp(uint32_t request, uint32_t table, absl::Span<const uint64_t> ids,
                      bool of_step, absl::Time now, CoreActions* actions) {
  STRATA_REQUIRE(!open_.contains(request));
  // The last push's answers may have the rows, and what was fetched further ahead is there already.
  const bool may_be_here = of_step && !ids.empty() && (!is_pushing() || lookahead_ > 1);
  if (Bytes weights; may_be_here && FindPrefetched(table, ids, &weights)) {
    prefetched_rows_ += ids.size();
    asked_rows_ += ids.size();
    Places all(ids.size());
    std::iota(all.begin(), all.end(), 0);
    return found_.push_back({.request = request,
                             .places = std::move(all),
                             .weights = std::move(weights),
                             .is_last = true});
  }
  if (is_pushing()) {
    waiting_.push_back({request, table, of_step, {ids.begin(), ids.end()}});
    return;
  }
  if (ids.empty()) return found_.push_back({.request = request, .is_last = true});
  asked_rows_ += ids.size();
  std::vector<Places> places =
      Divide(ids, links_.size(), [&](uint64_t id) { return buckets_[BucketOf(table, id)].link; });
  for (size_t link = 0; link < links_.size(); ++link) {
    if (places[link].empty()) continue;
    std::vector<uint64_t> own;
    own.reserve(places[link].size());
    for (const uint32_t place : places[link]) own.push_back(ids[place]);
    const wire::RowsSection wanted{.table = table, .ids = own};
    wire::Header header;
    header.op = Op::kLookup;
    header.key_space = wire::KeySpace::kRows;
    header.clock = next_lookup_++;
    ++open_[request];
    lookups_[header.clock] = {
        .request = request, .places = std::move(places[link]), .columns = columns_[table]};
    links_[link].Ask(header, wire::EncodeRows({}, {wanted}, columns_), now, &actions->wire);
  }
}

void RowsCore::Finish(absl::Time now, CoreActions* actions) {
  STRATA_REQUIRE(!is_pushing());
  wire::Header header;
  header.op = Op::kRetire;
  header.key_space = wire::KeySpace::kRows;
  header.clock = clock_;
  for (ShardLink& link : links_) link.Ask(header, Bytes(), now, &actions->wire);
  retiring_ = static_cast<uint32_t>(links_.size());
}

void RowsCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  for (const ShardLink& link : links_) {
    auto& shards = *activity->mutable_shards();
    auto of_shard = std::find_if(shards.begin(), shards.end(), [&](const auto& shard) {
      return shard.address() == link.address();
    });
    if (of_shard == shards.end()) {
      proto::ShardActivity* const added = activity->add_shards();
      added->set_address(link.address());
      added->set_connected(true);
      of_shard = shards.end() - 1;
    }
    const LinkActivity own = link.Activity(now);
    if (own.connected) continue;
    of_shard->set_connected(false);
    of_shard->set_error(own.error);
    of_shard->set_oldest_ms(
        std::max(of_shard->oldest_ms(), absl::ToInt64Milliseconds(own.down_for)));
  }
}

ShardLink* RowsCore::Find(transport::ConnectionId connection) {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&](const ShardLink& link) { return link.Owns(connection); });
  return found == links_.end() ? nullptr : &*found;
}

absl::Status RowsCore::OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) {
  switch (event.kind) {
    case LinkEvent::Kind::kStart:
      for (ShardLink& link : links_) link.Start(now, &actions->wire);
      break;
    case LinkEvent::Kind::kFrame:
      return NamedBy(options_.node, OnFrame(event, now, actions));
    case LinkEvent::Kind::kTime:
      for (ShardLink& link : links_) {
        absl::Status status = link.OnTime(now, &actions->wire);
        if (!status.ok()) return NamedBy(options_.node, status);
      }
      break;
    case LinkEvent::Kind::kConnected:
      links_[event.link.value()].OnConnected(event.connection, now, &actions->wire);
      break;
    case LinkEvent::Kind::kConnectFailed:
      links_[event.link.value()].OnLost(event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kLost:
      if (ShardLink* link = Find(event.connection)) link->OnLost(event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kQueueFull:
      if (ShardLink* link = Find(event.connection)) link->OnSendQueueFull(event.frame->header, now);
      break;
  }
  return absl::OkStatus();
}

absl::Status RowsCore::OnFrame(const LinkEvent& event, absl::Time now, CoreActions* actions) {
  ShardLink* const link = Find(event.connection);
  if (link == nullptr) return absl::OkStatus();
  absl::StatusOr<std::optional<wire::Header>> asked =
      link->OnFrame(*event.frame, now, &actions->wire);
  if (!asked.ok()) return asked.status();
  return asked->has_value() ? OnAnswer(*link, **asked, *event.frame, now, actions)
                            : absl::OkStatus();
}

absl::Status RowsCore::OnAnswer(const ShardLink& link, const wire::Header& asked,
                                const wire::Frame& frame, absl::Time now, CoreActions* actions) {
  switch (asked.op) {
    case Op::kPushPull:
      if (absl::Status kept = Keep(asked, link, frame); !kept.ok()) return kept;
      buckets_[asked.chunk].versions[asked.clock % lookahead_] = frame.header.version;
      refused_ += frame.header.sample_count;
      if (--unanswered_ > 0) return absl::OkStatus();
      for (const Waiting& lookup : std::exchange(waiting_, {})) {
        LookUp(lookup.request, lookup.table, lookup.ids, lookup.of_step, now, actions);
      }
      return absl::OkStatus();
    case Op::kLookup:
      return OnFound(link, asked, frame);
    default:
      if (--retiring_ > 0) return absl::OkStatus();
      is_finished_ = true;
      for (ShardLink& one : links_) one.Close(&actions->wire);
      return absl::OkStatus();
  }
}

absl::Status RowsCore::OnFound(const ShardLink& link, const wire::Header& asked,
                               const wire::Frame& frame) {
  const auto lookup = lookups_.find(asked.clock);
  STRATA_REQUIRE(lookup != lookups_.end());
  const uint64_t values = lookup->second.places.size() * uint64_t{lookup->second.columns};
  if (frame.header.element_count != values) {
    return absl::InternalError(
        absl::StrFormat("server %s answered a lookup with %d values instead of %d", link.address(),
                        frame.header.element_count, values));
  }
  const auto open = open_.find(lookup->second.request);
  found_.push_back({.request = lookup->second.request,
                    .places = std::move(lookup->second.places),
                    .weights = frame.payload,
                    .is_last = --open->second == 0});
  if (open->second == 0) open_.erase(open);
  lookups_.erase(lookup);
  return absl::OkStatus();
}

absl::Time RowsCore::deadline() const {
  absl::Time due = absl::InfiniteFuture();
  for (const ShardLink& link : links_) due = std::min(due, link.deadline());
  return due;
}

}  // namespace strata::worker
