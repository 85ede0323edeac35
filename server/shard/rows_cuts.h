#ifndef STRATA_SERVER_SHARD_ROWS_CUTS_H_
#define STRATA_SERVER_SHARD_ROWS_CUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/image/rows_image.h"
#include "common/os/limits.h"
#include "rows/row_table.h"
#include "rows/table_spec.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// Pieces that are made and not written yet; no further one is made before one of them is.
inline constexpr size_t kRowPiecesHeldMax = 2;

// Some rows of a shard's part of a checkpoint: one of its objects.
struct RowsPiece {
  uint64_t clock = 0;
  uint32_t number = 0;                         // among the part's objects
  bool is_last = false;                        // the part is whole with it
  std::string problem;                         // why the part does not become whole; empty: it may
  uint32_t buckets = 0;                        // of the job
  std::vector<BucketImage> parts;              // the buckets that rows are of
  std::vector<std::vector<std::byte>> packed;  // rows, by table, as RowTable::TakeCut gives them
};

// Returns the piece as it is written. `tables`: of the job.
RowsImage ImageOf(const RowsPiece& piece, absl::Span<const rows::TableSpec> tables);

// Returns the most bytes of the pieces that are made and not written, with one that is being
// written.
uint64_t RowPieceBytesMax(const RowsPlan& plan);

// The copies of a shard's rows for checkpoints: each bucket's as it is when its rows have exactly
// the pushes before the checkpoint's clock, or, where pushes are applied on arrival, at least
// these. Tables go on changing while their rows are taken, piece after piece. One copy is taken at
// a time. A further one waits for it as long as none of its rows change; then it gets a problem
// instead, as one does whose rows change so fast that what they were would take too much memory.
//
// A pure state machine. Threads: one.
class RowsCuts {
 public:
  // Both outlive it.
  RowsCuts(const RowsPlan& plan, const std::vector<std::unique_ptr<rows::RowTable>>& tables);

  // The bucket (its index in the plan) has all pushes before `clock`. `applied`: by node, its
  // pushes in the rows; empty: those. Clocks of a bucket ascend; some may be skipped.
  void OnClock(size_t index, uint64_t clock, uint64_t version,
               const std::vector<uint64_t>& applied);
  // The rows are those of a checkpoint of this clock.
  void GoOnFrom(uint64_t clock);
  // Rows of the bucket are about to change: gives up a copy that waits with it.
  void OnChange(size_t index);
  // Rows have changed: gives up a copy that takes too much memory.
  void OnChanged();
  // A piece is not in memory any more.
  void LetGo();

  // Returns the pieces since the last call, each of which is held until LetGo.
  std::vector<RowsPiece> Take() { return std::exchange(pieces_, {}); }
  // For tables that change no more: whether copies are not given out yet, and the next piece, which
  // is not held.
  bool has_rest() const { return IsThere(open_); }
  std::optional<RowsPiece> TakeRest();
  // Returns the bytes of copies of changed rows, and of pieces that are not written.
  size_t bytes() const;

 private:
  // A copy that is not given out yet.
  struct Open {
    uint64_t clock = 0;
    std::vector<std::optional<BucketImage>> buckets;  // by index; nullopt: not there yet
    size_t reached = 0;                               // those that are
    size_t bucket = 0, table = 0;                     // whose rows are taken next
    RowsPiece piece;
    size_t piece_bytes = 0;
  };

  static bool IsThere(const std::optional<Open>& copy) {
    return copy && copy->reached == copy->buckets.size();
  }
  // Adds a bucket to a copy, which may be a new one.
  void Add(std::optional<Open>* copy, uint64_t clock, size_t index, const BucketImage& image) const;
  void BeginCut(size_t index);
  // The open copy is given out, or given up: the one that waits is the open one.
  void EndOpen();
  void GiveUp(uint64_t clock, const std::string& problem);
  void GiveUpAsLate(uint64_t clock);
  // Makes as many pieces as may be held.
  void Advance();
  // Takes rows until the piece is full, or the last one; returns false if it waits for a bucket.
  bool FillPiece();
  void EmitPiece(bool is_last);

  const RowsPlan& plan_;
  const std::vector<std::unique_ptr<rows::RowTable>>& tables_;
  std::vector<uint64_t> next_;  // by bucket: the next checkpoint's clock
  std::optional<Open> open_, waiting_;
  uint64_t given_up_ = 0;  // the newest clock that was; of none up to it a copy is begun
  size_t held_ = 0;        // pieces
  std::vector<RowsPiece> pieces_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_ROWS_CUTS_H_
