#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_SLICE_PIECES_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_SLICE_PIECES_H_

#include <cstdint>
#include <vector>

#include "common/buffer_pool.h"
#include "common/bytes.h"

namespace strata::worker {

// A chunk's fp32 elements, known piece by piece; a later piece covers what was known before.
//
// Threads: one.
class SlicePieces {
 public:
  // `pool` outlives it.
  explicit SlicePieces(BufferPool* pool) : pool_(pool) {}

  void Add(uint32_t first_element, Bytes floats) {
    pieces_.push_back({first_element, std::move(floats)});
  }
  // Elements [begin, end): without a copy where one piece has them all. REQUIRES: they are known.
  Bytes View(uint32_t begin, uint32_t end) const;
  void Clear() { pieces_.clear(); }

 private:
  struct Piece {
    uint32_t begin = 0;
    Bytes floats;
    uint32_t end() const { return begin + static_cast<uint32_t>(floats.float_count()); }
  };

  BufferPool* pool_;
  std::vector<Piece> pieces_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_SLICE_PIECES_H_
