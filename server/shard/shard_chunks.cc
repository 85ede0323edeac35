#include "server/shard/shard_chunks.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::server {

ShardChunks::ShardChunks(const ShardPlan& plan, const kernels::Kernels& kernels, BufferPool& pool,
                         numerics::EncoderScratch* scratch)
    : plan_(plan) {
  for (const OwnChunk& chunk : plan_.chunks) {
    chunks_.push_back(std::make_unique<ChunkState>(kernels, pool, scratch, plan_.rules,
                                                   chunk.elements, chunk.runs));
  }
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) JoinAll(chunk);
  known_deadlines_.assign(chunks_.size(), absl::InfiniteFuture());
}

void ShardChunks::Change(size_t chunk, absl::FunctionRef<void(ChunkState&)> call) {
  call(*chunks_[chunk]);
  const absl::Time deadline = chunks_[chunk]->deadline();
  absl::Time& known = known_deadlines_[chunk];
  if (deadline == known) return;
  deadlines_.erase({known, chunk});
  if (deadline < absl::InfiniteFuture()) deadlines_.insert({deadline, chunk});
  known = deadline;
}

absl::Time ShardChunks::deadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first - ahead_;
}

std::optional<size_t> ShardChunks::NextDue(absl::Time now) const {
  if (deadlines_.empty() || deadlines_.begin()->first > TimeAt(now)) return std::nullopt;
  return deadlines_.begin()->second;
}

void ShardChunks::JoinAll(size_t chunk) {
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    const uint64_t clock = plan_.views->JoinedAt(plan_.nodes[node]);
    if (clock > 0) chunks_[chunk]->Join(node, clock);
  }
}

absl::Status ShardChunks::CheckAhead(uint64_t clock) const {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    for (size_t node = 0; node < plan_.nodes.size(); ++node) {
      const ChunkState& state = *chunks_[chunk];
      if (state.IsRetired(node) || state.Received(node) <= clock) continue;
      return absl::FailedPreconditionError(
          absl::StrFormat("the job's nodes are to change at clock %d, but node %d has pushed chunk "
                          "%d of it already",
                          clock, plan_.nodes[node].value(), plan_.chunks[chunk].id.value()));
    }
  }
  return absl::OkStatus();
}

absl::Status ShardChunks::Restore(absl::Span<const ChunkImage> images) {
  for (const ChunkImage& image : images) {
    const auto own =
        std::lower_bound(plan_.chunks.begin(), plan_.chunks.end(), image.begin,
                         [](const OwnChunk& chunk, uint64_t begin) { return chunk.begin < begin; });
    if (own == plan_.chunks.end() || own->begin != image.begin) continue;
    ChunkState& chunk = *chunks_[static_cast<size_t>(own - plan_.chunks.begin())];
    absl::Status restored = chunk.weights().seeded()
                                ? absl::InvalidArgumentError("it is there twice")
                                : chunk.Restore(image);
    if (!restored.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the checkpoint's chunk %d: %s", own->id.value(), restored.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ShardChunks::CheckRestored() const {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (chunks_[chunk]->weights().seeded()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("the checkpoint has no elements from %d on, where chunk %d begins",
                        plan_.chunks[chunk].begin, plan_.chunks[chunk].id.value()));
  }
  return absl::OkStatus();
}

wire::Header ShardChunks::HeaderOf(wire::Op op, size_t chunk) const {
  wire::Header header;
  header.op = op;
  header.job = plan_.job.value();
  header.view = plan_.view;
  header.chunk = plan_.chunks[chunk].id.value();
  return header;
}

void ShardChunks::Fill(FollowingCopy* copy, bool keeps_sums, absl::Time now) {
  copy->Fill(plan_.fill_ahead_bytes, TimeAt(now), now, [&](size_t chunk) {
    ChunkState& state = *chunks_[chunk];
    std::vector<wire::Frame> parts =
        CopyFrames(state.Copy(plan_.logs_sums), HeaderOf(wire::Op::kCopy, chunk));
    state.sums().Keep(keeps_sums);
    return parts;
  });
}

uint64_t ShardChunks::bytes() const {
  uint64_t bytes = 0;
  for (const auto& chunk : chunks_) bytes += chunk->bytes();
  return bytes;
}

}  // namespace strata::server
