#include "rows/row_batch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/diverged.h"
#include "rows/lanes.h"

namespace strata::rows {
namespace {

struct Entry {
  uint64_t id, place;
};

constexpr int kDigitBits = 11;
constexpr size_t kDigitValues = size_t{1} << kDigitBits;
// With fewer entries a comparison sort is faster than a pass over all values of a digit.
constexpr size_t kRadixMin = 512;

// Sorts by id, and entries with the same id by place: a stable radix sort from the lowest digit, up
// to the highest bit in which ids differ.
void Sort(std::vector<Entry>& entries) {
  if (entries.size() < kRadixMin) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.id != b.id ? a.id < b.id : a.place < b.place;
    });
    return;
  }
  uint64_t differing = 0;
  for (const Entry& entry : entries) differing |= entry.id ^ entries[0].id;
  std::vector<Entry> sorted(entries.size());
  std::array<size_t, kDigitValues> begins;
  for (int shift = 0; shift < static_cast<int>(std::bit_width(differing)); shift += kDigitBits) {
    const auto digit_of = [shift](uint64_t id) { return (id >> shift) & (kDigitValues - 1); };
    begins.fill(0);
    for (const Entry& entry : entries) ++begins[digit_of(entry.id)];
    size_t begin = 0;
    for (size_t& count : begins) begin += std::exchange(count, begin);
    for (const Entry& entry : entries) sorted[begins[digit_of(entry.id)]++] = entry;
    entries.swap(sorted);
  }
}

absl::Status NotFinite(uint64_t id, size_t column, float value) {
  return DivergedError(
      absl::StrFormat("id %d: the gradient of column %d is %g", id, column, value));
}

}  // namespace

size_t UniqueIds(absl::Span<const uint64_t> ids, uint64_t* unique, int64_t* inverse) {
  std::vector<Entry> entries(ids.size());
  for (size_t place = 0; place < ids.size(); ++place) {
    entries[place] = {ids[place], place};
  }
  Sort(entries);
  size_t count = 0;
  for (const Entry& entry : entries) {
    if (count == 0 || unique[count - 1] != entry.id) unique[count++] = entry.id;
    inverse[entry.place] = static_cast<int64_t>(count - 1);
  }
  return count;
}

// The sum of all values times zero is not zero if there is one.
size_t FirstNotFinite(const float* values, size_t count) {
  constexpr size_t kLanes = 8;
  float zeros[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) zeros[lane] += values[i + lane] * 0.0f;
  }
  bool is_finite = true;
  for (const float zero : zeros) is_finite &= zero == 0.0f;
  if (is_finite &&
      std::all_of(values + i, values + count, [](float v) { return std::isfinite(v); })) {
    return count;
  }
  return static_cast<size_t>(
      std::find_if(values, values + count, [](float v) { return !std::isfinite(v); }) - values);
}

void SpreadBags(const float* bags, absl::Span<const int64_t> ends, uint32_t columns,
                const int64_t* places, float* rows) {
  int64_t at = 0;
  for (const int64_t end : ends) {
    for (; at < end; ++at) AddRow(bags, columns, rows + places[at] * columns);
    bags += columns;
  }
}

absl::Status RowGradients::Add(absl::Span<const uint64_t> ids, const float* gradients) {
  const size_t values = ids.size() * columns_;
  if (const size_t bad = FirstNotFinite(gradients, values); bad < values) {
    return NotFinite(ids[bad / columns_], bad % columns_, gradients[bad]);
  }
  if (ids_.empty()) {
    ids_.assign(ids.begin(), ids.end());
    sums_.assign(gradients, gradients + values);
    return absl::OkStatus();
  }
  merged_ids_.clear();
  merged_sums_.clear();
  merged_ids_.reserve(ids_.size() + ids.size());
  merged_sums_.reserve((ids_.size() + ids.size()) * columns_);
  const auto take = [this](uint64_t id, const float* values) {
    merged_ids_.push_back(id);
    merged_sums_.insert(merged_sums_.end(), values, values + columns_);
  };
  size_t old = 0, added = 0;
  while (old < ids_.size() || added < ids.size()) {
    const bool has_old = old < ids_.size(), has_added = added < ids.size();
    if (has_old && (!has_added || ids_[old] <= ids[added])) {
      const bool is_both = has_added && ids_[old] == ids[added];
      take(ids_[old], &sums_[old * columns_]);
      ++old;
      if (!is_both) continue;
      float* const sum = &merged_sums_[merged_sums_.size() - columns_];
      const float* const more = gradients + added * columns_;
      AddRow(more, columns_, sum);
    } else {
      take(ids[added], gradients + added * columns_);
    }
    ++added;
  }
  const size_t bad = FirstNotFinite(merged_sums_.data(), merged_sums_.size());
  if (bad < merged_sums_.size()) {
    return NotFinite(merged_ids_[bad / columns_], bad % columns_, merged_sums_[bad]);
  }
  ids_.swap(merged_ids_);
  sums_.swap(merged_sums_);
  return absl::OkStatus();
}

void RowGradients::Clear() {
  ids_.clear();
  sums_.clear();
}

}  // namespace strata::rows
