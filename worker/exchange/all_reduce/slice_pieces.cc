#include "worker/exchange/all_reduce/slice_pieces.h"

#include <algorithm>
#include <memory>

#include "common/copies.h"
#include "common/require.h"

namespace strata::worker {

Bytes SlicePieces::View(uint32_t begin, uint32_t end) const {
  // The newest piece that has any of them decides, if it has them all.
  const auto newest = std::find_if(pieces_.rbegin(), pieces_.rend(), [&](const Piece& piece) {
    return piece.begin < end && begin < piece.end();
  });
  if (begin == end) return Bytes();
  STRATA_REQUIRE(newest != pieces_.rend());
  if (newest->begin <= begin && end <= newest->end()) {
    return newest->floats.Part((begin - newest->begin) * sizeof(float),
                               (end - begin) * sizeof(float));
  }
  uint32_t known = 0;
  const std::shared_ptr<float> whole = pool_->AllocateFloats(end - begin);
  for (const Piece& piece : pieces_) {
    const uint32_t from = std::max(begin, piece.begin), to = std::min(end, piece.end());
    if (from >= to) continue;
    known = std::max(known, to);
    CopyBytes(CopyReason::kJoined, whole.get() + (from - begin),
              piece.floats.floats() + (from - piece.begin), (to - from) * sizeof(float));
  }
  STRATA_REQUIRE(known == end);
  return AsBytes(whole, end - begin);
}

}  // namespace strata::worker
