#include "worker/exchange/all_reduce/node_step.h"

#include <utility>

#include "common/require.h"
#include "worker/exchange/all_reduce/chunk_reduction.h"

namespace strata::worker {

void NodeStep::Publish(ChunkId chunk) {
  STRATA_REQUIRE(!chunks_[chunk.value()].is_published);
  chunks_[chunk.value()].is_published = true;
  to_tell_.push_back(chunk);
}

std::optional<ChunkId> NodeStep::NextToAnnounce() {
  if (to_tell_.empty()) return std::nullopt;
  const ChunkId chunk = to_tell_.front();
  to_tell_.pop_front();
  return chunk;
}

bool NodeStep::Want(ChunkId chunk) {
  Chunk& of = chunks_[chunk.value()];
  STRATA_REQUIRE(of.is_published);
  of.is_wanted = true;
  return !of.sum && !std::exchange(of.is_asked, true);
}

void NodeStep::Keep(ChunkId chunk, ExchangeNode::Sum sum) {
  chunks_[chunk.value()].sum = std::move(sum);
}

const ExchangeNode::Sum* NodeStep::sum(ChunkId chunk) const {
  const auto& sum = chunks_[chunk.value()].sum;
  return sum ? &*sum : nullptr;
}

bool NodeStep::TakeMean(ChunkId chunk, uint32_t first_element, Bytes mean, bool lands) {
  Chunk& of = chunks_[chunk.value()];
  STRATA_REQUIRE(!of.has_landed);
  if (std::exchange(has_last_, false)) {
    for (Chunk& each : chunks_) each.last_mean.clear();
  }
  of.mean.push_back({first_element, std::move(mean)});
  of.has_landed = lands;
  landed_ += lands ? 1 : 0;
  return landed_ == chunks_.size();
}

std::vector<NodeAction> NodeStep::Make() {
  STRATA_REQUIRE(landed_ == chunks_.size());
  std::vector<NodeAction> means;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    for (const Piece& piece : chunk.mean) {
      means.push_back({.kind = NodeAction::Kind::kDeliver,
                       .chunk = ChunkId(c),
                       .clock = clock_,
                       .first_element = piece.first_element,
                       .weights = piece.mean});
    }
    means.back().lands = true;
    chunk = {.last_mean = std::move(chunk.mean)};
  }
  // The means may come from another ring, so this one may not know all sums.
  to_tell_.clear();
  has_last_ = true;
  landed_ = 0;
  ++clock_;
  return means;
}

void NodeStep::Forget() {
  to_tell_.clear();
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    chunk.is_wanted = chunk.has_landed = false;
    chunk.mean.clear();
    if (chunk.is_published) to_tell_.push_back(ChunkId(c));
  }
  landed_ = 0;
}

Bytes NodeStep::LastMean(ChunkId chunk, BufferPool* pool) {
  STRATA_REQUIRE(has_last_);
  std::vector<Piece>& last = chunks_[chunk.value()].last_mean;
  SlicePieces pieces(pool);
  for (Piece& piece : last) pieces.Add(piece.first_element, std::move(piece.mean));
  last = {{0, pieces.View(0, map_.ElementsOf(chunk))}};
  return last[0].mean;
}

}  // namespace strata::worker
