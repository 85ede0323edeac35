#include "server/shard/frame_gate.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

using wire::ErrorCode;
using wire::Op;

// Returns whether the frame must hold all elements of its chunk; otherwise it must hold none.
bool HasElements(const wire::Header& header) {
  return (header.op == Op::kInit || header.op == Op::kPushPull || header.op == Op::kApply) &&
         (header.flags & wire::kFlagEmpty) == 0;
}

}  // namespace

FrameGate::FrameGate(const ShardPlan& plan, const NodeConnections& connections)
    : plan_(plan), connections_(connections) {
  for (size_t i = 0; i < plan.nodes.size(); ++i) node_index_[plan.nodes[i]] = i;
  for (size_t i = 0; i < plan.chunks.size(); ++i) chunk_index_[plan.chunks[i].id] = i;
}

std::optional<size_t> FrameGate::IndexOf(ChunkId chunk) const {
  const auto found = chunk_index_.find(chunk);
  if (found == chunk_index_.end()) return std::nullopt;
  return found->second;
}

std::optional<FrameFault> FrameGate::CheckHello(transport::ConnectionId connection,
                                                const wire::Header& header,
                                                const wire::Hello& hello, Binding* binding) const {
  if (hello.cluster != plan_.cluster || hello.token != plan_.token) {
    return FrameFault{ErrorCode::kWrongJob, "cluster or token"};
  }
  if (hello.role != wire::Hello::Role::kNode) return FrameFault{ErrorCode::kWrongRole, "role"};
  if (std::optional<FrameFault> fault = CheckEra(header)) return fault;
  const auto node = node_index_.find(NodeId(header.node));
  if (node == node_index_.end()) {
    return FrameFault{ErrorCode::kWrongView, "node not in the view"};
  }
  if (header.incarnation < connections_.incarnation(node->second)) {
    return FrameFault{ErrorCode::kFenced, "older incarnation"};
  }
  if (hello.connection >= plan_.slots()) {
    return FrameFault{ErrorCode::kWrongConnection,
                      absl::StrFormat("connection %d of %d", hello.connection, plan_.slots())};
  }
  *binding = {.node = node->second, .slot = hello.connection, .incarnation = header.incarnation};
  const Binding* const before = connections_.Find(connection);
  if (before != nullptr && (before->node != binding->node || before->slot != binding->slot)) {
    return FrameFault{ErrorCode::kNoHello, "bound to another node or line"};
  }
  return std::nullopt;
}

std::optional<FrameFault> FrameGate::CheckPrimary(const wire::Header& header,
                                                  const wire::Hello& hello) const {
  if (hello.cluster != plan_.cluster || hello.token != plan_.token) {
    return FrameFault{ErrorCode::kWrongJob, "cluster or token"};
  }
  if (header.view != plan_.view) return FrameFault{ErrorCode::kWrongView, "view"};
  if (header.generation == plan_.generation) return std::nullopt;
  return FrameFault{ErrorCode::kFenced,
                    absl::StrFormat("generation %d, here %d", header.generation, plan_.generation),
                    header.generation > plan_.generation};
}

std::optional<FrameFault> FrameGate::CheckChange(const wire::Frame& frame, size_t* node,
                                                 size_t* chunk) const {
  const wire::Header& header = frame.header;
  if (!wire::IsLogged(header.op)) {
    return FrameFault{ErrorCode::kWrongRole, "primaries do not send " + wire::ToString(header.op)};
  }
  if (header.job != plan_.job.value() || header.view != plan_.view ||
      header.generation != plan_.generation) {
    return FrameFault{ErrorCode::kWrongJob, "not HELLO's job, view and generation"};
  }
  if (header.op != Op::kApply && header.op != Op::kCopy) {
    const auto found = node_index_.find(NodeId(header.node));
    if (found == node_index_.end()) return FrameFault{ErrorCode::kWrongView, "node"};
    *node = found->second;
  }
  if (header.op == Op::kRetire) return std::nullopt;
  const std::optional<size_t> index = IndexOf(ChunkId(header.chunk));
  if (!index.has_value()) {
    return FrameFault{ErrorCode::kWrongChunk, absl::StrFormat("no chunk %d here", header.chunk)};
  }
  *chunk = *index;
  if (header.op == Op::kCopy) return std::nullopt;  // checked by CopyCollector
  return CheckPayload(frame, plan_.chunks[*chunk]);
}

std::optional<FrameFault> FrameGate::Check(const Binding& binding, const wire::Frame& frame,
                                           size_t* chunk) const {
  if (std::optional<FrameFault> fault = CheckSender(binding, frame.header)) return fault;
  if (frame.header.op == Op::kRetire) return std::nullopt;
  if (std::optional<FrameFault> fault = CheckChunk(binding, frame.header, chunk)) return fault;
  if (frame.header.op == Op::kInit) {
    const bool asks = (frame.header.flags & wire::kFlagEmpty) != 0;
    const bool may_only_ask =
        plan_.resumes || (plan_.rules.takes_first_weights && binding.node != 0);
    if (asks != may_only_ask) {
      const char* const offers = plan_.resumes ? "the job goes on from a checkpoint"
                                               : "the job begins with another node's weights";
      return FrameFault{ErrorCode::kConflict, asks ? "the node is to offer first weights" : offers};
    }
  }
  return CheckPayload(frame, plan_.chunks[*chunk]);
}

std::optional<FrameFault> FrameGate::CheckRows(const Binding& binding, const wire::Frame& frame,
                                               size_t* bucket) const {
  const RowsPlan& rows = plan_.rows;
  const wire::Header& header = frame.header;
  if (std::optional<FrameFault> fault = CheckSender(binding, header)) return fault;
  if (rows.tables.empty()) return FrameFault{ErrorCode::kWrongChunk, "the job has no tables"};
  if (binding.slot != rows.connection) {
    return FrameFault{
        ErrorCode::kWrongConnection,
        absl::StrFormat("connection %d, but rows take %d", binding.slot, rows.connection)};
  }
  if (header.op == Op::kRetire || header.op == Op::kLookup) return std::nullopt;
  const auto found = std::lower_bound(rows.buckets.begin(), rows.buckets.end(), header.chunk);
  if (found == rows.buckets.end() || *found != header.chunk) {
    return FrameFault{ErrorCode::kWrongChunk,
                      absl::StrFormat("bucket %d is not here", header.chunk)};
  }
  *bucket = static_cast<size_t>(found - rows.buckets.begin());
  return std::nullopt;
}

std::optional<FrameFault> FrameGate::CheckEra(const wire::Header& header) const {
  if (header.view != plan_.view) {
    return FrameFault{ErrorCode::kWrongView,
                      absl::StrFormat("view %d, not %d", header.view, plan_.view),
                      header.view > plan_.view};
  }
  // One of the two does not know yet where the shard is now.
  if (header.generation < plan_.heard_from || header.generation > plan_.generation) {
    return FrameFault{ErrorCode::kWrongGeneration, "", /*retry=*/true};
  }
  return std::nullopt;
}

std::optional<FrameFault> FrameGate::CheckSender(const Binding& binding,
                                                 const wire::Header& header) const {
  if (header.job != plan_.job.value()) return FrameFault{ErrorCode::kWrongJob, "not HELLO's job"};
  if (header.sequence != 0) return FrameFault{ErrorCode::kMalformed, "sequence"};
  if (header.node != plan_.nodes[binding.node].value() ||
      header.incarnation != binding.incarnation) {
    return FrameFault{ErrorCode::kNoHello, "not HELLO's node and incarnation"};
  }
  if (binding.incarnation != connections_.incarnation(binding.node)) {
    return FrameFault{ErrorCode::kFenced, "a newer incarnation said HELLO"};
  }
  switch (header.op) {
    case Op::kPull:
      if (plan_.lets_begin_late) return CheckEra(header);
      return FrameFault{ErrorCode::kWrongRole, "the job replaces no nodes, and none join it"};
    case Op::kInit:
    case Op::kPushPull:
    case Op::kCut:
    case Op::kRetire:
    case Op::kLookup:
      return CheckEra(header);
    default:
      return FrameFault{ErrorCode::kWrongRole, "nodes do not send " + wire::ToString(header.op)};
  }
}

std::optional<FrameFault> FrameGate::CheckChunk(const Binding& binding, const wire::Header& header,
                                                size_t* chunk) const {
  const std::optional<size_t> index = IndexOf(ChunkId(header.chunk));
  if (!index) {
    return FrameFault{ErrorCode::kWrongChunk,
                      absl::StrFormat("chunk %d is not here", header.chunk)};
  }
  if (const uint32_t slot = plan_.chunks[*index].connection; slot != binding.slot) {
    return FrameFault{
        ErrorCode::kWrongConnection,
        absl::StrFormat("connection %d, but chunk %d takes %d", binding.slot, header.chunk, slot)};
  }
  *chunk = *index;
  return std::nullopt;
}

wire::Codec FrameGate::CodecFor(const wire::Header& header) const {
  if (header.op != Op::kPushPull || !HasElements(header)) return wire::Codec::kNone;
  if (plan_.rules.takes_sparse && header.codec == wire::Codec::kSparse) return header.codec;
  return plan_.rules.push_codec;
}

std::optional<FrameFault> FrameGate::CheckPayload(const wire::Frame& frame,
                                                  const OwnChunk& chunk) const {
  const wire::Header& header = frame.header;
  const wire::Codec codec = CodecFor(header);
  if (header.codec != codec) {
    return FrameFault{
        ErrorCode::kWrongCodec,
        absl::StrFormat("%s, not %s", wire::ToString(header.codec), wire::ToString(codec))};
  }
  const size_t elements = HasElements(header) ? chunk.elements : 0;
  if (header.element_count != elements ||
      !wire::CheckEncodedBytes(codec, elements, frame.payload.size()).ok()) {
    return FrameFault{ErrorCode::kWrongChunk,
                      absl::StrFormat("%d elements, not %d", header.element_count, elements)};
  }
  return std::nullopt;
}

}  // namespace strata::server
