#include "tests/sim/check/shard_copies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::sim {

using wire::Op;

bool IsSameChange(const wire::Header& a, const wire::Header& b) {
  return a.op == b.op && a.node == b.node && a.chunk == b.chunk && a.clock == b.clock &&
         a.incarnation == b.incarnation;
}

void NextCopy::OnCopySent(uint32_t chunk, const proto::ChunkCopy& head) {
  SaidChunk said;
  said.gate = UINT64_MAX;
  for (const proto::CopiedNode& node : head.nodes()) {
    said.received.push_back(node.received());
    if (!node.retired()) said.gate = std::min(said.gate, node.received());
  }
  said.seeded = head.seeded();
  said.parts_left = 1 + static_cast<uint64_t>(head.vector_bytes_size());
  said_.emplace(chunk, std::move(said));
}

std::string NextCopy::OnTaken(const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  if (header.sequence != taken_ + 1) return "";  // it has that
  ++taken_;
  if (header.op != Op::kCopy) {
    ahead_.push_back(frame);
    return "";
  }
  const auto said = said_.find(header.chunk);
  if (said == said_.end() || said->second.parts_left == 0) {
    return absl::StrCat("a copy of chunk ", header.chunk, " that nobody has said");
  }
  if (--said->second.parts_left == 0) ++whole_;
  return "";
}

bool NextCopy::IsInCopy(const wire::Header& change) const {
  if (change.op == Op::kRetire) return retired_.count(change.node) > 0;
  const auto found = said_.find(change.chunk);
  if (found == said_.end()) return false;
  const SaidChunk& said = found->second;
  if (change.op == Op::kInit) return said.seeded;
  if (change.op == Op::kApply) return change.clock < said.gate;
  return change.clock < said.received.at(change.node);
}

bool NextCopy::Lacks(const wire::Header& change) const {
  const bool concerns_it = change.op == Op::kRetire || said_.count(change.chunk) > 0;
  if (change.op == Op::kCopy || !concerns_it || IsInCopy(change)) return false;
  return std::none_of(ahead_.begin(), ahead_.end(),
                      [&](const wire::Frame& one) { return IsSameChange(one.header, change); });
}

void NextCopy::Forget(const wire::Header& change) {
  std::erase_if(ahead_, [&](const wire::Frame& one) { return IsSameChange(one.header, change); });
}

}  // namespace strata::sim
