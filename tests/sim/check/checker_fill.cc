// The part of JobChecker that knows of second copies that come later: empty, and filled chunk by
// chunk while nodes go on.
#include <cstdint>

#include "absl/strings/str_format.h"
#include "server/shard/copy/chunk_copy.pb.h"
#include "tests/sim/check/checker.h"

namespace strata::sim {

void JobChecker::OnEmptyInstalled(const Copy& copy, uint32_t generation) {
  ShardCopies& copies = copies_[copy.shard];
  const auto [known, is_new] = copies.empty.emplace(generation, copy.process);
  if (!is_new) {
    Violate("a copy is filled once in a generation",
            absl::StrFormat("shard %d is empty again in generation %d", copy.shard, generation));
  }
  if (copies.has_backup && copies.generation == generation) copies.backup = copy.process;
  for (std::optional<NextCopy>* next : {&copies.next, &copies.next_of_backup}) {
    if (*next && (*next)->generation() == generation) (*next)->set_process(copy.process);
  }
}

void JobChecker::OnFill(const Copy& copy, uint32_t generation) {
  ShardCopies& copies = copies_[copy.shard];
  if (copies.primary != copy.process) {
    return Violate("the primary fills its second copy", absl::StrFormat("shard %d", copy.shard));
  }
  const auto empty = copies.empty.find(generation);
  copies.has_backup = true;
  copies.backup = empty == copies.empty.end() ? 0 : empty->second;
  copies.generation = generation;
  copies.taken = copies.followed = 0;
  copies.unconfirmed.clear();
  copies.confirmed.clear();
  copies.backup_ahead = absl::ZeroDuration();
  copies.awaited.clear();
}

void JobChecker::EndFollowing(uint32_t shard) {
  copies_[shard].backup = 0;
  copies_[shard].has_backup = false;
  copies_[shard].unconfirmed.clear();
  copies_[shard].confirmed.clear();
  for (Chunk& chunk : chunks_) {
    if (chunk.shard != shard) continue;
    chunk.is_followed = chunk.is_filled = false;
    chunk.copy_parts = 0;
  }
}

void JobChecker::OnWhole(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  if (copies.primary != copy.process) return;
  if (!copies.has_backup || !IsFilled(copy.shard)) {
    Violate("a second copy counts when it is whole", absl::StrFormat("shard %d", copy.shard));
  }
  copies.stands_still = false;
}

// From now on the backup follows the chunk. What it is told of nodes is what nodes may be told.
void JobChecker::OnCopySaid(const wire::Frame& frame) {
  Chunk& chunk = chunks_[frame.header.chunk];
  const ShardCopies& copies = copies_[chunk.shard];
  if (!copies.has_backup || frame.header.generation != copies.generation) {
    return Violate("a copy is filled once in a generation", wire::Describe(frame.header));
  }
  if (chunk.is_followed) return;  // it is said again
  proto::ChunkCopy head;
  const bool is_read =
      head.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  if (!is_read || head.nodes_size() != static_cast<int>(nodes_)) {
    return Violate("a primary says what it has taken", wire::Describe(frame.header));
  }
  for (uint32_t n = 0; n < nodes_; ++n) {
    const uint64_t received = head.nodes(static_cast<int>(n)).received();
    // It has pushed nothing yet, and the primary may not know that it joins.
    const uint64_t joins_at = views_.JoinedAt(NodeId(n));
    if (joins_at > 0 && chunk.received[n] == joins_at && received <= joins_at) continue;
    if (received < chunk.received[n]) TakeBack(&chunk, n, received);
    if (received == chunk.received[n]) continue;
    Violate("a primary says what it has taken",
            absl::StrFormat("chunk %d: %d pushes of node %d, not %d", frame.header.chunk, received,
                            n, chunk.received[n]));
  }
  chunk.is_followed = true;
  chunk.copy_parts = 1 + static_cast<uint64_t>(head.vector_bytes_size());
  chunk.open.clear();
  Remember(chunk.shard);
}

void JobChecker::TakeBack(Chunk* chunk, uint32_t node, uint64_t clock) {
  const bool is_open = MayLeaveOpenClocksOut() && clock >= Gate(*chunk);
  if (!is_open || !chunk->reference) return;
  for (const ShardCopies::Awaited& one : chunk->open) {
    const wire::Header& push = one.frame.header;
    if (push.node != node || push.clock < clock) continue;
    copies_[chunk->shard].awaited.push_back(one);
    --chunk->received[node];
  }
  chunk->reference->TakeBack(node, clock);
}

void JobChecker::TakeCopied(const wire::Frame& part) {
  Chunk& chunk = chunks_[part.header.chunk];
  if (chunk.is_filled || chunk.copy_parts == 0) {
    return Violate("a copy is filled once in a generation", wire::Describe(part.header));
  }
  chunk.is_filled = --chunk.copy_parts == 0;
}

}  // namespace strata::sim
