#include "rows/row_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/require.h"
#include "rows/lanes.h"
#include "rows/row_key.h"

namespace strata::rows {
namespace {

// The most rows of a range if hashes spread evenly: the largest index is then full with 6 standard
// deviations more.
constexpr uint64_t kRangeRows = 1280;
// How many rows each of three stages is ahead of the next one: the range, its index, the row. A
// core has 10 to 16 loads from memory under way.
constexpr size_t kAhead = 8;
constexpr size_t kStages = 3;

uint32_t RangeBits(uint64_t capacity, uint32_t bucket_bits) {
  const uint64_t ranges = std::bit_ceil((capacity + kRangeRows - 1) / kRangeRows);
  return std::max(static_cast<uint32_t>(std::bit_width(ranges) - 1), bucket_bits);
}

RowLayout LayoutOf(const TableSpec& spec) {
  return {.seed = spec.seed,
          .columns = spec.columns,
          .state = StateColumns(spec.optimizer.kind, spec.columns)};
}

// Hashes spread over ranges as balls over bins. One range in 10^9 has more than 6 standard
// deviations above the mean, and these rows more where the mean itself is a few rows.
constexpr double kFewRows = 8;
uint32_t RangeRowsMax(uint64_t capacity, uint32_t range_bits) {
  const double mean = std::ceil(static_cast<double>(capacity) / std::exp2(range_bits));
  const double most = range_bits == 0 ? mean : mean + 6 * std::sqrt(mean) + kFewRows;
  return static_cast<uint32_t>(std::min<double>(std::ceil(most), RowRange::kRowsMax));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowTable>> RowTable::Create(const TableSpec& spec,
                                                           uint32_t bucket_bits) {
  if (absl::Status valid = spec.Validate(); !valid.ok()) return valid;
  const uint32_t range_bits = RangeBits(spec.capacity, bucket_bits);
  const uint32_t range_rows_max = RangeRowsMax(spec.capacity, range_bits);
  const RowLayout layout = LayoutOf(spec);
  const uint64_t ranges = uint64_t{1} << range_bits;
  absl::StatusOr<RowMemory> memory = RowMemory::Create(layout, ranges, range_rows_max);
  absl::StatusOr<AddressSpace> range_space = AddressSpace::Reserve(ranges * sizeof(RowRange));
  for (const absl::Status& status : {memory.status(), range_space.status()}) {
    if (!status.ok()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("table \"", spec.name, "\": capacity: ", status.message()));
    }
  }
  return absl::WrapUnique(new RowTable(spec, bucket_bits, range_bits, range_rows_max,
                                       *std::move(memory), *std::move(range_space)));
}

RowTable::RowTable(const TableSpec& spec, uint32_t bucket_bits, uint32_t range_bits,
                   uint32_t range_rows_max, RowMemory memory, AddressSpace range_space)
    : spec_(spec),
      bucket_bits_(bucket_bits),
      range_bits_(range_bits),
      range_rows_max_(range_rows_max),
      memory_(std::move(memory)),
      range_space_(std::move(range_space)),
      ranges_(reinterpret_cast<RowRange*>(range_space_.begin()), size_t{1} << range_bits) {}

size_t RowTable::memory_bytes() const {
  return touched_ranges_ * sizeof(RowRange) + memory_.memory_bytes();
}

std::vector<uint64_t> RowTable::StoredIds() const {
  std::vector<uint64_t> ids;
  ids.reserve(size_);
  for (const RowRange& range : ranges_) {
    for (uint32_t at = 0; at < range.size(); ++at) ids.push_back(range.At(memory_, at).id());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

template <typename Each>
void RowTable::ForRows(absl::Span<const uint64_t> ids, const Each& each) const {
  constexpr size_t kLag = kAhead * kStages;
  constexpr size_t kRing = std::bit_ceil(kLag + 1);
  struct Next {
    uint64_t hash;
    const RowRange* range;
    uint64_t adds;
    StoredRow row = StoredRow(nullptr);
  };
  Next ring[kRing];
  const uint64_t seed = memory_.layout().seed;
  const auto begin = [&](size_t place) {
    Next& next = ring[place % kRing];
    next.hash = HashOf(seed, ids[place]);
    next.range = &RangeFor(next.hash);
    Prefetch(next.range);
  };
  const auto find_index = [&](size_t place) {
    const Next& next = ring[place % kRing];
    next.range->PrefetchIndex(memory_, next.hash);
  };
  const auto find_row = [&](size_t place) {
    Next& next = ring[place % kRing];
    next.adds = adds_;
    next.row = next.range->PrefetchRow(memory_, next.hash);
  };
  const auto end = [&](size_t place) {
    const Next& next = ring[place % kRing];
    StoredRow row = next.row;
    // A row that was added since may have moved this one.
    if (!row.exists() || adds_ != next.adds || row.id() != ids[place]) {
      row = next.range->Find(memory_, next.hash, ids[place]);
    }
    each(place, next.hash, row);
  };
  const size_t count = ids.size();
  size_t step = 0;
  for (; step < std::min(count, kLag); ++step) {
    begin(step);
    if (step >= kAhead) find_index(step - kAhead);
    if (step >= 2 * kAhead) find_row(step - 2 * kAhead);
  }
  for (; step < count; ++step) {
    begin(step);
    find_index(step - kAhead);
    find_row(step - 2 * kAhead);
    end(step - kLag);
  }
  for (; step < count + kLag; ++step) {
    if (step >= kAhead && step - kAhead < count) find_index(step - kAhead);
    if (step >= 2 * kAhead && step - 2 * kAhead < count) find_row(step - 2 * kAhead);
    if (step >= kLag) end(step - kLag);
  }
}

void RowTable::Lookup(absl::Span<const uint64_t> ids, float* to) const {
  const uint32_t columns = memory_.layout().columns;
  ForRows(ids, [&](size_t place, uint64_t, StoredRow row) {
    float* const row_to = to + place * size_t{columns};
    if (row.exists()) {
      CopyRow(row.weights(), columns, row_to);
    } else {
      FillInitial(spec_.initial, spec_.seed, ids[place], absl::MakeSpan(row_to, columns));
    }
  });
}

absl::Status RowTable::ReadState(absl::Span<const uint64_t> ids, float* to) const {
  absl::Status status;
  ForRows(ids, [&](size_t place, uint64_t, StoredRow row) {
    if (row.exists()) {
      std::copy_n(row.state(memory_.layout()), state_columns(), to + place * state_columns());
    } else if (status.ok()) {
      status = absl::NotFoundError(absl::StrFormat("id %d is not stored", ids[place]));
    }
  });
  return status;
}

StoredRow RowTable::Add(uint64_t hash, uint64_t id, Counts& counts) {
  RowRange& range = RangeFor(hash);
  if (range.size() >= range_rows_max_) {
    ++counts.refused;
    return StoredRow(nullptr);
  }
  if (range.size() == 0) ++touched_ranges_;
  const StoredRow row = range.Add(memory_, hash, id);
  row.pushes() = 0;
  row.flags() = 0;
  ++counts.stored;
  ++size_;
  ++adds_;
  return row;
}

RowTable::Counts RowTable::Update(absl::Span<const uint64_t> ids, const float* gradient_sums,
                                  const RowStep& step, uint32_t clock) {
  const uint32_t columns = memory_.layout().columns;
  const RowUpdate update(spec_.optimizer, step, memory_.layout().columns);
  Counts counts;
  ForRows(ids, [&](size_t place, uint64_t hash, StoredRow row) {
    if (!row.exists()) {
      row = Add(hash, ids[place], counts);
      if (!row.exists()) return;
      FillInitial(spec_.initial, spec_.seed, ids[place], absl::MakeSpan(row.weights(), columns));
      update.Begin(row.state(memory_.layout()));
    } else if (open_cuts_ > 0) {
      KeepForCut(hash, row);
    }
    row.clock() = clock;
    if (row.pushes() < UINT16_MAX) ++row.pushes();
    update(gradient_sums + place * columns, row.weights(), row.state(memory_.layout()));
    ++counts.updated;
  });
  return counts;
}

RowTable::Counts RowTable::Store(absl::Span<const uint64_t> ids, const float* weights,
                                 const float* state, uint32_t clock) {
  const uint32_t columns = memory_.layout().columns;
  const RowUpdate update(spec_.optimizer, RowStep{}, memory_.layout().columns);
  Counts counts;
  ForRows(ids, [&](size_t place, uint64_t hash, StoredRow row) {
    if (!row.exists()) row = Add(hash, ids[place], counts);
    if (!row.exists()) return;
    row.clock() = clock;
    std::copy_n(weights + place * columns, columns, row.weights());
    if (state == nullptr) {
      update.Begin(row.state(memory_.layout()));
    } else {
      std::copy_n(state + place * memory_.layout().state, memory_.layout().state,
                  row.state(memory_.layout()));
    }
    ++counts.updated;
  });
  return counts;
}

RowTable::Counts RowTable::Restore(const TableRows& rows) {
  const RowLayout& layout = memory_.layout();
  Counts counts;
  ForRows(rows.ids, [&](size_t place, uint64_t hash, StoredRow row) {
    if (!row.exists()) row = Add(hash, rows.ids[place], counts);
    if (!row.exists()) return;
    row.clock() = rows.clocks[place];
    row.pushes() = static_cast<uint16_t>(std::min<uint32_t>(rows.pushes[place], UINT16_MAX));
    std::copy_n(&rows.weights[place * layout.columns], layout.columns, row.weights());
    std::copy_n(rows.state.data() + place * layout.state, layout.state, row.state(layout));
    ++counts.updated;
  });
  return counts;
}

void RowTable::BeginCut(uint32_t bucket, uint32_t clock) {
  if (cuts_.empty()) cuts_.resize(size_t{1} << bucket_bits_);
  const uint32_t bits = range_bits_ - bucket_bits_;
  Cut& cut = cuts_[bucket];
  STRATA_REQUIRE(cut.next == cut.end);
  cut = {.next = uint64_t{bucket} << bits, .end = (uint64_t{bucket} + 1) << bits, .clock = clock};
  ++open_cuts_;
}

void RowTable::KeepForCut(uint64_t hash, StoredRow row) {
  const Cut& cut = cuts_[HighBits(hash, bucket_bits_)];
  const uint64_t range = HighBits(hash, range_bits_);
  if (range < cut.next || range >= cut.end || row.clock() >= cut.clock) return;
  const size_t bytes = memory_.row_bytes();
  std::unique_ptr<std::byte[]>& kept = kept_[row.id()];
  kept = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::memcpy(kept.get(), row.at(), bytes);
}

bool RowTable::TakeCut(uint32_t bucket, size_t bytes_max, std::vector<std::byte>* packed) {
  Cut& cut = cuts_[bucket];
  if (cut.next == cut.end) return true;
  const size_t bytes = memory_.row_bytes();
  const auto append = [&](const std::byte* row) {
    packed->insert(packed->end(), row, row + bytes);
  };
  for (; cut.next < cut.end && packed->size() < bytes_max; ++cut.next) {
    const RowRange& range = ranges_[cut.next];
    for (uint32_t at = 0; at < range.size(); ++at) {
      const StoredRow row = range.At(memory_, at);
      if (row.clock() < cut.clock) {
        append(row.at());
      } else if (const auto kept = kept_.find(row.id()); kept != kept_.end()) {
        append(kept->second.get());
        kept_.erase(kept);
      }
    }
  }
  if (cut.next < cut.end) return false;
  --open_cuts_;
  return true;
}

void RowTable::EndCuts() {
  cuts_.clear();
  open_cuts_ = 0;
  kept_.clear();
}

size_t RowTable::cut_bytes() const {
  // A slot of the map, at most 7/8 of which are taken, and what an allocation takes beside.
  constexpr size_t kBeside = 48;
  return kept_.size() * (memory_.row_bytes() + kBeside);
}

TableRows Unpack(const TableSpec& spec, uint32_t table, absl::Span<const std::byte> packed) {
  const RowLayout layout = LayoutOf(spec);
  const size_t bytes = layout.row_bytes(), count = packed.size() / bytes;
  TableRows rows = {
      .table = table, .name = spec.name, .columns = layout.columns, .state_columns = layout.state};
  rows.weights.reserve(count * layout.columns);
  rows.state.reserve(count * layout.state);
  std::vector<std::byte> one(bytes);  // aligned as a stored row is
  for (size_t place = 0; place < count; ++place) {
    std::memcpy(one.data(), packed.data() + place * bytes, bytes);
    const StoredRow row(one.data());
    rows.ids.push_back(row.id());
    rows.clocks.push_back(row.clock());
    rows.pushes.push_back(row.pushes());
    rows.weights.insert(rows.weights.end(), row.weights(), row.weights() + layout.columns);
    const float* const state = row.state(layout);
    rows.state.insert(rows.state.end(), state, state + layout.state);
  }
  return rows;
}

uint64_t RangeBytesMax(const TableSpec& spec) {
  return RowRange::kRowsMax * LayoutOf(spec).row_bytes();
}

uint64_t MemoryBytesMax(const TableSpec& spec, uint32_t bucket_bits, uint64_t buckets) {
  const uint32_t range_bits = RangeBits(spec.capacity, bucket_bits);
  const uint64_t ranges = buckets << (range_bits - bucket_bits);
  return ranges * sizeof(RowRange) +
         RowMemory::MemoryBytesMax(LayoutOf(spec), ranges, RangeRowsMax(spec.capacity, range_bits));
}

}  // namespace strata::rows
