#include "server/shard/rows_cuts.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "common/require.h"

namespace strata::server {
namespace {

// The buckets that a piece has rows of: each takes a few values for each node in its JSON.
constexpr size_t kPartsOfPiece = 256;

}  // namespace

RowsImage ImageOf(const RowsPiece& piece, absl::Span<const rows::TableSpec> tables) {
  RowsImage image = {.clock = piece.clock,
                     .buckets = piece.buckets,
                     .is_last = piece.is_last,
                     .parts = piece.parts};
  for (uint32_t table = 0; table < piece.packed.size(); ++table) {
    if (piece.packed[table].empty()) continue;
    image.tables.push_back(rows::Unpack(tables[table], table, piece.packed[table]));
  }
  return image;
}

uint64_t RowPieceBytesMax(const RowsPlan& plan) {
  uint64_t range = 0;
  for (const rows::TableSpec& table : plan.tables) {
    range = std::max<uint64_t>(range, rows::RangeBytesMax(table));
  }
  return (kRowPiecesHeldMax + 1) * (kRowPieceBytes + range);
}

RowsCuts::RowsCuts(const RowsPlan& plan, const std::vector<std::unique_ptr<rows::RowTable>>& tables)
    : plan_(plan), tables_(tables), next_(plan.buckets.size(), plan.cut_every) {}

void RowsCuts::GoOnFrom(uint64_t clock) {
  if (plan_.cut_every == 0) return;
  std::fill(next_.begin(), next_.end(), (clock / plan_.cut_every + 1) * plan_.cut_every);
}

void RowsCuts::OnClock(size_t index, uint64_t clock, uint64_t version,
                       const std::vector<uint64_t>& applied) {
  if (plan_.cut_every == 0) return;
  const BucketImage image = {
      .bucket = plan_.buckets[index], .version = version, .applied = applied};
  for (; next_[index] <= clock; next_[index] += plan_.cut_every) {
    const uint64_t due = next_[index];
    if (open_ && open_->clock == due) {
      Add(&open_, due, index, image);
      BeginCut(index);
    } else if (waiting_ && waiting_->clock == due) {
      Add(&waiting_, due, index, image);
    } else if (due <= given_up_) {
      continue;
    } else if (due + plan_.cut_every <= clock) {
      GiveUp(due, absl::StrFormat("step %d came at once, as a node has ended", clock));
    } else if (due >= UINT32_MAX) {
      GiveUp(due, "rows have clocks of 32 bits");
    } else if (!open_) {
      Add(&open_, due, index, image);
      BeginCut(index);
    } else if (!waiting_) {
      Add(&waiting_, due, index, image);
    } else {
      GiveUpAsLate(due);
    }
  }
  Advance();
}

void RowsCuts::Add(std::optional<Open>* copy, uint64_t clock, size_t index,
                   const BucketImage& image) const {
  if (!*copy) {
    copy->emplace(Open{});
    (*copy)->clock = clock;
    (*copy)->buckets.resize(plan_.buckets.size());
  }
  (*copy)->buckets[index] = image;
  ++(*copy)->reached;
}

void RowsCuts::BeginCut(size_t index) {
  for (const auto& table : tables_) {
    table->BeginCut(plan_.buckets[index], static_cast<uint32_t>(open_->clock));
  }
}

void RowsCuts::EndOpen() {
  open_ = std::exchange(waiting_, std::nullopt);
  if (!open_) return;
  for (size_t index = 0; index < open_->buckets.size(); ++index) {
    if (open_->buckets[index]) BeginCut(index);
  }
}

void RowsCuts::OnChange(size_t index) {
  if (!waiting_ || !waiting_->buckets[index]) return;
  const uint64_t clock = waiting_->clock;
  waiting_.reset();
  GiveUpAsLate(clock);
}

void RowsCuts::GiveUpAsLate(uint64_t clock) {
  GiveUp(clock, absl::StrFormat("the rows of the checkpoint of clock %d are not written yet: the "
                                "store is slower than steps are",
                                open_->clock));
}

void RowsCuts::OnChanged() {
  if (!open_) return;
  size_t kept = 0;
  for (const auto& table : tables_) kept += table->cut_bytes();
  if (kept <= plan_.kept_bytes) return;
  const uint64_t clock = open_->clock;
  for (const auto& table : tables_) table->EndCuts();
  GiveUp(clock, absl::StrFormat("%d MiB of rows have changed before they were written: the store "
                                "is slower than steps are",
                                kept >> 20));
  EndOpen();
  Advance();
}

void RowsCuts::GiveUp(uint64_t clock, const std::string& problem) {
  given_up_ = std::max(given_up_, clock);
  pieces_.push_back({.clock = clock, .problem = problem});
}

void RowsCuts::LetGo() {
  if (held_ > 0) --held_;
  Advance();
}

void RowsCuts::Advance() {
  while (open_ && held_ < kRowPiecesHeldMax && FillPiece()) ++held_;
}

bool RowsCuts::FillPiece() {
  Open& open = *open_;
  open.piece.packed.resize(tables_.size());
  for (; open.bucket < open.buckets.size(); ++open.bucket, open.table = 0) {
    const std::optional<BucketImage>& bucket = open.buckets[open.bucket];
    if (!bucket) return false;
    std::vector<BucketImage>& parts = open.piece.parts;
    if (parts.size() >= kPartsOfPiece && parts.back().bucket != bucket->bucket) {
      EmitPiece(/*is_last=*/false);
      return true;
    }
    if (parts.empty() || parts.back().bucket != bucket->bucket) parts.push_back(*bucket);
    for (; open.table < tables_.size(); ++open.table) {
      std::vector<std::byte>& packed = open.piece.packed[open.table];
      const size_t before = packed.size();
      const bool is_done = tables_[open.table]->TakeCut(
          bucket->bucket, before + plan_.piece_bytes - open.piece_bytes, &packed);
      open.piece_bytes += packed.size() - before;
      if (open.piece_bytes < plan_.piece_bytes) continue;
      if (is_done) ++open.table;
      EmitPiece(/*is_last=*/false);
      return true;
    }
  }
  EmitPiece(/*is_last=*/true);
  EndOpen();
  return true;
}

void RowsCuts::EmitPiece(bool is_last) {
  RowsPiece& piece = open_->piece;
  piece.clock = open_->clock;
  piece.is_last = is_last;
  piece.buckets = 1u << plan_.bucket_bits;
  const uint32_t number = piece.number;
  pieces_.push_back(std::exchange(piece, {}));
  piece.number = number + 1;
  open_->piece_bytes = 0;
}

std::optional<RowsPiece> RowsCuts::TakeRest() {
  if (!has_rest()) return std::nullopt;
  const bool is_filled = FillPiece();
  STRATA_REQUIRE(is_filled && pieces_.size() == 1);
  RowsPiece piece = std::move(pieces_[0]);
  pieces_.clear();
  return piece;
}

size_t RowsCuts::bytes() const {
  size_t bytes = held_ * plan_.piece_bytes + (open_ ? open_->piece_bytes : 0);
  for (const auto& table : tables_) bytes += table->cut_bytes();
  return bytes;
}

}  // namespace strata::server
