#include "worker/aggregator/core/node_rows.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/diverged.h"
#include "common/job/job.h"
#include "kernels/kernels.h"

namespace strata::worker {

NodeRows::NodeRows(RankId first_rank, NodeMemory* memory, RowsCore* core)
    : first_rank_(first_rank),
      memory_(*memory),
      core_(*core),
      ranks_(memory->offsets().local_ranks) {
  for (Rank& rank : ranks_) {
    for (const rows::TableSpec& table : core_.tables()) rank.gradients.emplace_back(table.columns);
    rank.rates.resize(core_.tables().size());
    rank.wants.resize(core_.tables().size());
  }
}

absl::Status NodeRows::Error(uint32_t local_rank, const std::string& what) const {
  return absl::InvalidArgumentError(
      absl::StrFormat("rank %d: %s", first_rank_.value() + local_rank, what));
}

absl::StatusOr<bool> NodeRows::Look(absl::Time now, CoreActions* actions) {
  bool any = false;
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    const RowSlot& slot = memory_.row_slot(r);
    if (ranks_[r].looks_up || slot.asked.load() == slot.answered.load()) continue;
    const absl::StatusOr<bool> taken = Take(r, now, actions);
    if (!taken.ok()) return taken.status();
    any = any || *taken;
  }
  const bool have_ended =
      std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.has_ended; });
  if (!have_ended || core_.is_pushing()) return any;
  if (absl::Status pushed = PushStep(now, actions); !pushed.ok()) return pushed;
  return true;
}

absl::StatusOr<bool> NodeRows::Take(uint32_t local_rank, absl::Time now, CoreActions* actions) {
  RowSlot& slot = memory_.row_slot(local_rank);
  Rank& rank = ranks_[local_rank];
  // Its next step is taken when this one has been pushed; and what it looks up has this one.
  if (rank.has_ended) return false;
  if (slot.ask == RowSlot::Ask::kEnd) {
    rank.has_ended = true;
    rank.step = slot.step;
    rank.samples = slot.samples;
    Answer(local_rank);
    return true;
  }
  const uint32_t table = slot.table, rows = slot.rows;
  if (table >= core_.tables().size() || rows > RowSlot::RowsMax(core_.tables()[table].columns)) {
    return Error(local_rank, absl::StrFormat("asks for %d rows of table %d", rows, table));
  }
  if (slot.ask == RowSlot::Ask::kLookUp || slot.ask == RowSlot::Ask::kTake) {
    rank.looks_up = true;
    rank.table = table;
    rank.rows = rows;
    const bool of_step = slot.ask == RowSlot::Ask::kTake;
    core_.LookUp(local_rank, table, absl::MakeConstSpan(slot.ids(), rows), of_step, now, actions);
    return true;
  }
  if (slot.ask == RowSlot::Ask::kWant) {
    TakeWants(local_rank, table, rows);
  } else if (absl::Status taken = TakeGradients(local_rank, table, rows); !taken.ok()) {
    return taken;
  }
  Answer(local_rank);
  return true;
}

absl::Status NodeRows::TakeGradients(uint32_t local_rank, uint32_t table, uint32_t rows) {
  RowSlot& slot = memory_.row_slot(local_rank);
  Rank& rank = ranks_[local_rank];
  rank.rates[table] = slot.rate;
  absl::Status added =
      rank.gradients[table].Add(absl::MakeConstSpan(slot.ids(), rows), slot.values(rows));
  uint64_t bytes = 0;
  for (size_t t = 0; t < rank.gradients.size(); ++t) {
    bytes += RowBytes(rank.gradients[t].ids().size(), core_.tables()[t].columns);
  }
  if (added.ok()) added = core_.CheckBytes(bytes);
  return Prefixed(absl::StrFormat("rank %d: table \"%s\": ", first_rank_.value() + local_rank,
                                  core_.tables()[table].name),
                  added);
}

void NodeRows::TakeWants(uint32_t local_rank, uint32_t table, uint32_t rows) {
  Rank& rank = ranks_[local_rank];
  rank.wanted_bytes += RowBytes(rows, core_.tables()[table].columns);
  if (!core_.CheckBytes(rank.wanted_bytes).ok()) return;  // they are looked up
  const uint64_t* const ids = memory_.row_slot(local_rank).ids();
  rank.wants[table].insert(rank.wants[table].end(), ids, ids + rows);
}

std::vector<uint64_t> NodeRows::WantedOf(uint32_t table) const {
  std::vector<uint64_t> ids;
  for (const Rank& rank : ranks_) {
    ids.insert(ids.end(), rank.wants[table].begin(), rank.wants[table].end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void NodeRows::Answer(uint32_t local_rank) {
  memory_.row_slot(local_rank).answered.fetch_add(1);
  RingRank(&memory_.rank(local_rank));
}

absl::Status NodeRows::CheckSameStep() const {
  for (uint32_t r = 1; r < ranks_.size(); ++r) {
    if (ranks_[r].step == ranks_[0].step) continue;
    return Error(r, absl::StrFormat("has ended step %d, rank %d step %d", ranks_[r].step,
                                    first_rank_.value(), ranks_[0].step));
  }
  for (size_t table = 0; table < core_.tables().size(); ++table) {
    std::optional<uint32_t> first;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].gradients[table].ids().empty()) continue;
      if (!first) first = r;
      if (ranks_[r].rates[table] == ranks_[*first].rates[table]) continue;
      return Error(r, absl::StrFormat("table \"%s\" has learning rate %g, that of rank %d %g",
                                      core_.tables()[table].name, ranks_[r].rates[table],
                                      first_rank_.value() + *first, ranks_[*first].rates[table]));
    }
  }
  return absl::OkStatus();
}

absl::Status NodeRows::AddUp(uint32_t table, size_t begin, size_t end) {
  if (end - begin < 2) return absl::OkStatus();
  const size_t middle = begin + kernels::SumTreeSplit(end - begin);
  if (absl::Status left = AddUp(table, begin, middle); !left.ok()) return left;
  if (absl::Status right = AddUp(table, middle, end); !right.ok()) return right;
  const rows::RowGradients& right = ranks_[middle].gradients[table];
  absl::Status added = ranks_[begin].gradients[table].Add(right.ids(), right.sums());
  if (ranks_[begin].rates[table] == 0) ranks_[begin].rates[table] = ranks_[middle].rates[table];
  return Prefixed(absl::StrFormat("table \"%s\": ", core_.tables()[table].name), added);
}

absl::Status NodeRows::PushStep(absl::Time now, CoreActions* actions) {
  if (absl::Status same = CheckSameStep(); !same.ok()) return same;
  std::vector<wire::RowsSection> sums;
  for (uint32_t table = 0; table < core_.tables().size(); ++table) {
    if (absl::Status added = AddUp(table, 0, ranks_.size()); !added.ok()) return added;
    const rows::RowGradients& sum = ranks_[0].gradients[table];
    if (sum.ids().empty()) continue;
    sums.push_back(
        {.table = table, .rate = ranks_[0].rates[table], .ids = sum.ids(), .values = sum.sums()});
  }
  std::vector<std::vector<uint64_t>> ids;  // which sections point into
  ids.reserve(core_.tables().size());
  std::vector<wire::RowsSection> wanted;
  for (uint32_t table = 0; table < core_.tables().size(); ++table) {
    ids.push_back(WantedOf(table));
    if (!ids.back().empty()) wanted.push_back({.table = table, .ids = ids.back()});
  }
  uint32_t samples = 0;
  for (const Rank& rank : ranks_) samples += rank.samples;
  absl::Status pushed = core_.Push(sums, wanted, samples, now, actions);
  if (!pushed.ok()) return pushed;
  for (Rank& rank : ranks_) {
    rank.has_ended = false;
    for (rows::RowGradients& gradients : rank.gradients) gradients.Clear();
    for (std::vector<uint64_t>& wants : rank.wants) wants.clear();
    rank.wanted_bytes = 0;
    std::fill(rank.rates.begin(), rank.rates.end(), 0.0f);
  }
  return absl::OkStatus();
}

void NodeRows::GiveFound() {
  for (const RowsCore::Found& found : core_.TakeFound()) {
    Rank& rank = ranks_[found.request];
    const size_t columns = core_.tables()[rank.table].columns;
    float* const values = memory_.row_slot(found.request).values(rank.rows);
    const float* from = found.weights.floats();
    for (const uint32_t place : found.places) {
      std::copy_n(from, columns, values + place * columns);
      from += columns;
    }
    if (!found.is_last) continue;
    rank.looks_up = false;
    Answer(found.request);
  }
}

bool NodeRows::is_idle() const {
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    const RowSlot& slot = memory_.row_slot(r);
    if (ranks_[r].has_ended || slot.asked.load() != slot.answered.load()) return false;
  }
  return !core_.is_pushing();
}

}  // namespace strata::worker
