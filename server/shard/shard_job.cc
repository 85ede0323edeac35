#include "server/shard/shard_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "server/shard/frames/reply.h"

namespace strata::server {
namespace {

std::string ReasonOf(const wire::Header& push, const std::string& what) {
  return absl::StrFormat("node %d chunk %d clock %d: %s", push.node, push.chunk, push.clock, what);
}

}  // namespace

using wire::ErrorCode;
using wire::Op;

ShardJob::ShardJob(ShardPlan plan, const kernels::Kernels& kernels, BufferPool& pool,
                   kernels::EncoderScratch* scratch, Refusals* refusals,
                   std::unique_ptr<TraceLog> trace)
    : plan_(std::move(plan)),
      kernels_(kernels),
      nodes_(plan_.nodes.size(), Node{.lines = std::vector<NodeLine>(plan_.connections)}),
      refusals_(refusals),
      trace_(std::move(trace)) {
  for (size_t i = 0; i < plan_.nodes.size(); ++i) node_index_[plan_.nodes[i].value()] = i;
  for (const OwnChunk& chunk : plan_.chunks) {
    line_of_chunk_[chunk.id.value()] = chunk.connection;
    chunks_[chunk.id.value()] = std::make_unique<ChunkState>(kernels, pool, scratch, plan_.rules,
                                                             chunk.elements, chunk.runs);
  }
}

bool ShardJob::OnHello(transport::ConnectionId connection, const wire::Frame& frame,
                       const wire::Hello& hello, std::vector<ShardAction>* actions) {
  const wire::Header& header = frame.header;
  counters_.bytes_received += wire::kHeaderBytes + frame.payload.size();
  if (std::optional<Fault> fault = CheckHello(header, hello)) {
    Reject(connection, frame, *fault, actions);
    return false;
  }
  const size_t index = node_index_.at(header.node);
  const Binding binding = {
      .node = index, .line = hello.connection, .incarnation = header.incarnation};
  const auto before = bindings_.find(connection);
  if (before != bindings_.end() &&
      (before->second.node != index || before->second.line != binding.line)) {
    Refuse(connection, frame, ErrorCode::kNoHello, "bound to another node or line", actions);
    return false;
  }
  Join(connection, binding);
  bindings_[connection] = binding;
  Send(connection, Reply(header, Op::kHelloOk), actions);
  return true;
}

void ShardJob::Join(transport::ConnectionId connection, const Binding& binding) {
  Node& node = nodes_[binding.node];
  if (binding.incarnation != node.incarnation) {
    node = {.incarnation = binding.incarnation, .lines = std::vector<NodeLine>(plan_.connections)};
  }
  node.lines[binding.line].Join(connection);
}

std::optional<ShardJob::Fault> ShardJob::CheckHello(const wire::Header& header,
                                                    const wire::Hello& hello) const {
  if (hello.cluster != plan_.cluster || hello.token != plan_.token) {
    return Fault{ErrorCode::kWrongJob, "cluster or token"};
  }
  if (hello.role != wire::Hello::Role::kNode) return Fault{ErrorCode::kWrongRole, "role"};
  if (std::optional<Fault> fault = CheckEra(header)) return fault;
  const auto node = node_index_.find(header.node);
  if (node == node_index_.end()) return Fault{ErrorCode::kWrongView, "node not in the view"};
  if (header.incarnation < nodes_[node->second].incarnation) {
    return Fault{ErrorCode::kFenced, "older incarnation"};
  }
  if (hello.connection >= plan_.connections) {
    return Fault{ErrorCode::kWrongConnection,
                 absl::StrFormat("connection %d of %d", hello.connection, plan_.connections)};
  }
  return std::nullopt;
}

std::optional<ShardJob::Fault> ShardJob::CheckEra(const wire::Header& header) const {
  if (header.view != plan_.view) {
    return Fault{ErrorCode::kWrongView, absl::StrFormat("view %d, not %d", header.view, plan_.view),
                 header.view > plan_.view};
  }
  if (header.generation != plan_.generation) {
    return Fault{ErrorCode::kWrongGeneration,
                 absl::StrFormat("generation %d, not %d", header.generation, plan_.generation),
                 header.generation > plan_.generation};
  }
  return std::nullopt;
}

std::optional<ShardJob::Fault> ShardJob::CheckSender(const Binding& binding,
                                                     const wire::Header& header) const {
  if (header.job != plan_.job.value()) return Fault{ErrorCode::kWrongJob, "not HELLO's job"};
  if (header.node != plan_.nodes[binding.node].value() ||
      header.incarnation != binding.incarnation) {
    return Fault{ErrorCode::kNoHello, "not HELLO's node and incarnation"};
  }
  if (binding.incarnation != nodes_[binding.node].incarnation) {
    return Fault{ErrorCode::kFenced, "a newer incarnation said HELLO"};
  }
  switch (header.op) {
    case Op::kInit:
    case Op::kPushPull:
    case Op::kCut:
    case Op::kRetire:
      return CheckEra(header);
    default:
      return Fault{ErrorCode::kWrongRole, "nodes do not send " + wire::ToString(header.op)};
  }
}

std::optional<ShardJob::Fault> ShardJob::CheckChunk(const Binding& binding,
                                                    const wire::Frame& frame) const {
  const wire::Header& header = frame.header;
  const auto chunk = chunks_.find(header.chunk);
  if (chunk == chunks_.end()) {
    return Fault{ErrorCode::kWrongChunk, absl::StrFormat("chunk %d is not here", header.chunk)};
  }
  if (const uint32_t line = line_of_chunk_.at(header.chunk); line != binding.line) {
    return Fault{
        ErrorCode::kWrongConnection,
        absl::StrFormat("connection %d, but chunk %d takes %d", binding.line, header.chunk, line)};
  }
  const bool has_elements = header.op == Op::kInit ||
                            (header.op == Op::kPushPull && (header.flags & wire::kFlagEmpty) == 0);
  const size_t elements = has_elements ? chunk->second->weights().elements() : 0;
  const bool is_push = header.op == Op::kPushPull && has_elements;
  const bool may_be_sparse = is_push && plan_.rules.takes_sparse;
  const wire::Codec codec = may_be_sparse && header.codec == wire::Codec::kSparse
                                ? wire::Codec::kSparse
                            : is_push ? plan_.rules.push_codec
                                      : wire::Codec::kNone;
  if (header.codec != codec) {
    return Fault{ErrorCode::kWrongCodec, absl::StrFormat("%s, not %s", wire::ToString(header.codec),
                                                         wire::ToString(codec))};
  }
  if (header.element_count != elements ||
      !wire::CheckEncodedBytes(codec, elements, frame.payload.size()).ok()) {
    return Fault{ErrorCode::kWrongChunk,
                 absl::StrFormat("%d elements, not %d", header.element_count, elements)};
  }
  if (header.op != Op::kInit && !chunk->second->weights().seeded()) {
    return Fault{ErrorCode::kNone, "", true};
  }
  return std::nullopt;
}

void ShardJob::OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       std::vector<ShardAction>* actions) {
  counters_.bytes_received += wire::kHeaderBytes + frame.payload.size();
  const Binding binding = bindings_.at(connection);
  std::optional<Fault> fault = CheckSender(binding, frame.header);
  if (!fault && frame.header.op != Op::kRetire) fault = CheckChunk(binding, frame);
  if (fault) return Reject(connection, frame, *fault, actions);
  Join(connection, binding);
  switch (frame.header.op) {
    case Op::kInit:
      return OnInit(connection, frame, actions);
    case Op::kPushPull:
      return OnPushPull(connection, binding.node, frame, now, actions);
    case Op::kCut:
      return OnCut(connection, binding.node, frame, actions);
    default:
      return OnRetire(connection, binding.node, frame, now, actions);
  }
}

void ShardJob::OnInit(transport::ConnectionId connection, const wire::Frame& frame,
                      std::vector<ShardAction>* actions) {
  ChunkState& chunk = *chunks_.at(frame.header.chunk);
  const kernels::WeightState& weights = chunk.weights();
  const uint64_t checksum = wire::ChecksumOf(frame.payload);
  if (weights.seeded()) {
    if (weights.seed_checksum() != checksum) {
      return Refuse(connection, frame, ErrorCode::kConflict, "other first weights than before",
                    actions);
    }
  } else if (!kernels_.all_finite(frame.payload.floats(), frame.payload.float_count())) {
    return Refuse(connection, frame, ErrorCode::kNotFinite, "NaN or infinity in first weights",
                  actions);
  } else {
    chunk.Seed(frame.payload, checksum);
  }
  Send(connection, Reply(frame.header, Op::kInitOk), actions);
}

void ShardJob::OnPushPull(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                          absl::Time now, std::vector<ShardAction>* actions) {
  const wire::Header& header = frame.header;
  ChunkState& chunk = *chunks_.at(header.chunk);
  const uint64_t version_before = chunk.weights().version();
  const absl::Time deadline_before = chunk.deadline();
  trace_.OnArrival();
  if (header.clock == chunk.Received(node)) {
    trace_.OnPush(NodeId(header.node), ChunkId(header.chunk), header.clock);
  }
  std::vector<DueAnswer> due;
  const PushResult result = chunk.OnPush({.node = node,
                                          .incarnation = header.incarnation,
                                          .clock = header.clock,
                                          .base_version = header.base_version,
                                          .samples = header.sample_count,
                                          .checksum = header.payload_checksum,
                                          .codec = header.codec,
                                          .sum = frame.payload,
                                          .came_at = now},
                                         &due);
  KeepDeadline(header.chunk, deadline_before);
  if (result.error != ErrorCode::kNone) {
    Refuse(connection, frame, result.error, ReasonOf(header, result.reason), actions);
    return SendDue(header.chunk, due, actions);
  }
  if (result.duplicate) {
    ++counters_.duplicates;
    // Who asks again is answered again, nobody else.
    for (const DueAnswer& answer : due) {
      ++counters_.answers;
      Send(connection, FrameOf(header.chunk, answer), actions);
    }
    return;
  }
  ++counters_.pushes;
  if (chunk.weights().version() != version_before) {
    trace_.OnApplied(NodeId(header.node), ChunkId(header.chunk), header.clock);
  }
  nodes_[node].lines[line_of_chunk_.at(header.chunk)].Prove(connection);
  SendDue(header.chunk, due, actions);
}

void ShardJob::OnCut(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                     std::vector<ShardAction>* actions) {
  std::vector<DueAnswer> due;
  chunks_.at(frame.header.chunk)->OnCut(node, frame.header.clock, &due);
  SendDue(frame.header.chunk, due, actions);
}

void ShardJob::OnRetire(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                        absl::Time now, std::vector<ShardAction>* actions) {
  Send(connection, Reply(frame.header, Op::kRetireOk), actions);
  trace_.OnArrival();
  for (const OwnChunk& chunk : plan_.chunks) {
    ChunkState& state = *chunks_.at(chunk.id.value());
    const absl::Time deadline_before = state.deadline();
    std::vector<DueAnswer> due;
    state.OnRetire(node, now, &due);
    KeepDeadline(chunk.id.value(), deadline_before);
    SendDue(chunk.id.value(), due, actions);
  }
}

void ShardJob::KeepDeadline(uint32_t chunk, absl::Time before) {
  const absl::Time deadline = chunks_.at(chunk)->deadline();
  if (deadline == before) return;
  deadlines_.erase({before, chunk});
  if (deadline < absl::InfiniteFuture()) deadlines_.insert({deadline, chunk});
}

void ShardJob::OnTime(absl::Time now, std::vector<ShardAction>* actions) {
  while (deadline() <= now) {
    const auto [before, chunk] = *deadlines_.begin();
    trace_.OnArrival();
    std::vector<DueAnswer> due;
    chunks_.at(chunk)->OnTime(now, &due);
    KeepDeadline(chunk, before);
    SendDue(chunk, due, actions);
  }
}

// An answer whose node has no connection now is not kept: the node resends its push (or CUT) over
// the next one and is answered then.
void ShardJob::SendDue(uint32_t chunk, const std::vector<DueAnswer>& due,
                       std::vector<ShardAction>* actions) {
  for (const DueAnswer& answer : due) {
    const NodeLine& line = nodes_[answer.node].lines[line_of_chunk_.at(chunk)];
    if (answer.op == Op::kAnswer) {
      trace_.OnDue(plan_.nodes[answer.node], ChunkId(chunk), answer.clock);
    }
    if (answer.op == Op::kError) {
      ++counters_.refused;
      ++(*refusals_)[CauseOf(ErrorCode::kNotFinite, Sender::kMember)];
    }
    // Also where nobody takes it: it is part of the node's copy from now on.
    const wire::Frame frame = FrameOf(chunk, answer);
    if (line.connections().empty()) continue;
    if (answer.op == Op::kAnswer) ++counters_.answers;
    for (const transport::ConnectionId connection : line.connections()) {
      Send(connection, frame, actions);
    }
  }
}

wire::Frame ShardJob::FrameOf(uint32_t chunk, const DueAnswer& answer) {
  ChunkState& state = *chunks_.at(chunk);
  wire::Frame frame;
  wire::Header& header = frame.header;
  header.op = answer.op;
  header.job = plan_.job.value();
  header.view = plan_.view;
  header.generation = plan_.generation;
  header.chunk = chunk;
  header.node = plan_.nodes[answer.node].value();
  header.incarnation = nodes_[answer.node].incarnation;
  header.clock = answer.clock;
  header.element_count = state.weights().elements();
  header.received = state.Received(answer.node);
  header.min_clock = state.MinClock();
  header.staleness = answer.staleness;
  if (answer.op == Op::kError) {
    const size_t push_bytes = state.weights().elements() * sizeof(float);
    return ErrorReply(header, push_bytes, ErrorCode::kNotFinite, ReasonOf(header, kNotFiniteText));
  }
  SetWeights(answer, &state, &frame);
  return frame;
}

void ShardJob::SetWeights(const DueAnswer& answer, ChunkState* state, wire::Frame* frame) {
  kernels::WeightState& weights = state->weights();
  wire::Header& header = frame->header;
  if (answer.op != Op::kAnswer || !state->copies().encodes()) {
    WeightVersion given = state->WeightsFor(answer);
    header.version = given.version;
    frame->payload = std::move(given.weights);
    return;
  }
  TraceSpan span(answer.again ? nullptr : trace(), proto::TraceEvent::ENCODE, ChunkId(header.chunk),
                 answer.clock, header.node);
  absl::StatusOr<NodeCopies::Answer> encoded =
      answer.again ? state->copies().Whole(answer.node)
                   : state->copies().Next(answer.node, weights.weights(), weights.version());
  if (!encoded.ok()) {
    *frame = ErrorReply(header, 0, ErrorCode::kNotFinite, "");
    return;
  }
  header.codec = encoded->codec;
  header.base_version = encoded->base;
  header.version = encoded->version;
  frame->payload = std::move(encoded->payload);
}

void ShardJob::Send(transport::ConnectionId connection, wire::Frame frame,
                    std::vector<ShardAction>* actions) {
  counters_.bytes_sent += wire::kHeaderBytes + frame.payload.size();
  actions->push_back({ShardAction::Kind::kSend, connection, std::move(frame)});
}

void ShardJob::Reject(transport::ConnectionId connection, const wire::Frame& frame,
                      const Fault& fault, std::vector<ShardAction>* actions) {
  if (fault.retry) return Send(connection, RetryReply(frame.header, fault.code), actions);
  Refuse(connection, frame, fault.code, fault.reason, actions);
}

void ShardJob::Refuse(transport::ConnectionId connection, const wire::Frame& frame, ErrorCode code,
                      const std::string& reason, std::vector<ShardAction>* actions) {
  ++counters_.refused;
  const bool member = bindings_.contains(connection);
  ++(*refusals_)[CauseOf(code, member ? Sender::kMember : Sender::kJoining)];
  Send(connection, ErrorReply(frame.header, frame.payload.size(), code, reason), actions);
}

void ShardJob::OnDisconnected(transport::ConnectionId connection) {
  const auto binding = bindings_.find(connection);
  if (binding == bindings_.end()) return;
  nodes_[binding->second.node].lines[binding->second.line].Leave(connection);
  bindings_.erase(binding);
}

}  // namespace strata::server
