#include "server/shard/answer_sender.h"

#include <utility>

#include "server/shard/shard_action.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

AnswerSender::AnswerSender(const ShardPlan& plan, const NodeConnections& connections,
                           ShardTrace* trace, ShardCounters* counters, Refusals* refusals)
    : plan_(plan),
      connections_(connections),
      trace_(trace),
      counters_(counters),
      refusals_(refusals) {}

void AnswerSender::Send(transport::ConnectionId connection, wire::Frame frame,
                        std::vector<ShardAction>* actions) {
  counters_->bytes_sent += wire::kHeaderBytes + frame.payload.size();
  actions->push_back({ShardAction::Kind::kSend, connection, std::move(frame)});
}

void AnswerSender::Refuse(transport::ConnectionId connection, const wire::Frame& frame,
                          ErrorCode code, const std::string& reason,
                          std::vector<ShardAction>* actions) {
  ++counters_->refused;
  const bool is_member = connections_.Find(connection) != nullptr;
  ++(*refusals_)[RefusalCause(code, is_member ? Sender::kMember : Sender::kJoining)];
  Send(connection, ErrorReply(frame.header, frame.payload.size(), code, reason), actions);
}

// An answer to a node without a connection is not kept: the node resends its push (or CUT) over the
// next one and is answered then.
void AnswerSender::SendDue(const OwnChunk& chunk, ChunkState* state,
                           const std::vector<DueAnswer>& due, std::vector<ShardAction>* actions) {
  for (const DueAnswer& answer : due) {
    if (answer.op == Op::kAnswer) {
      trace_->OnDue(plan_.nodes[answer.node], chunk.id, answer.clock);
    }
    if (answer.op == Op::kError) {
      ++counters_->refused;
      ++(*refusals_)[RefusalCause(ErrorCode::kNotFinite, Sender::kMember)];
    }
    const std::vector<transport::ConnectionId>& receivers =
        connections_.InSlot(answer.node, chunk.connection);
    // Made even if nobody takes it: it is part of the node's copy from now on.
    const wire::Frame frame = FrameFor(chunk, state, answer);
    if (receivers.empty()) continue;
    if (answer.op == Op::kAnswer) ++counters_->answers;
    for (const transport::ConnectionId connection : receivers) {
      Send(connection, frame, actions);
    }
  }
}

void AnswerSender::SendAgain(transport::ConnectionId connection, const OwnChunk& chunk,
                             ChunkState* state, const std::vector<DueAnswer>& due,
                             std::vector<ShardAction>* actions) {
  for (const DueAnswer& answer : due) {
    ++counters_->answers;
    Send(connection, FrameFor(chunk, state, answer), actions);
  }
}

void AnswerSender::SendRows(std::vector<RowsAnswer>& due, const ShardRows& rows,
                            std::vector<ShardAction>* actions) {
  for (RowsAnswer& answer : due) {
    const wire::Frame frame = FrameFor(answer, rows);
    const bool is_error = frame.header.op == Op::kError;
    if (is_error) ++(*refusals_)[RefusalCause(answer.error.error, Sender::kMember)];
    const std::vector<transport::ConnectionId>& receivers =
        connections_.InSlot(answer.node, plan_.rows.connection);
    if (!receivers.empty()) ++(is_error ? counters_->refused : counters_->answers);
    for (const transport::ConnectionId connection : receivers) Send(connection, frame, actions);
  }
}

wire::Frame AnswerSender::FrameFor(RowsAnswer& answer, const ShardRows& rows) const {
  wire::Header header =
      HeaderFor(Op::kAnswer, plan_.rows.buckets[answer.bucket], answer.node, answer.clock);
  header.key_space = wire::KeySpace::kRows;
  if (answer.error.error != ErrorCode::kNone) {
    return ErrorReply(header, answer.error.reason.size(), answer.error.error, answer.error.reason);
  }
  header.version = rows.version(answer.bucket);
  header.received = rows.Received(answer.bucket, answer.node);
  header.min_clock = rows.MinClock(answer.bucket);
  header.staleness = answer.staleness;
  header.sample_count = answer.refused;
  header.element_count = static_cast<uint32_t>(answer.wanted.float_count());
  wire::Frame frame{.header = header};
  frame.payload = std::move(answer.wanted);
  return frame;
}

wire::Header AnswerSender::HeaderFor(Op op, uint32_t chunk, size_t node, uint64_t clock) const {
  wire::Header header;
  header.op = op;
  header.job = plan_.job.value();
  header.view = plan_.view;
  header.generation = plan_.generation;
  header.chunk = chunk;
  header.node = plan_.nodes[node].value();
  header.incarnation = connections_.incarnation(node);
  header.clock = clock;
  return header;
}

wire::Frame AnswerSender::FrameFor(const OwnChunk& chunk, ChunkState* state,
                                   const DueAnswer& answer) {
  wire::Frame frame;
  wire::Header& header = frame.header;
  header = HeaderFor(answer.op, chunk.id.value(), answer.node, answer.clock);
  header.element_count = chunk.elements;
  header.received = state->Received(answer.node);
  header.min_clock = state->MinClock();
  header.staleness = answer.staleness;
  if (answer.op == Op::kError) {
    const size_t push_bytes = chunk.elements * sizeof(float);
    return ErrorReply(header, push_bytes, ErrorCode::kNotFinite,
                      PushReason(header, kNotFiniteText));
  }
  SetWeights(answer, state, &frame);
  return frame;
}

void AnswerSender::SetWeights(const DueAnswer& answer, ChunkState* state, wire::Frame* frame) {
  wire::Header& header = frame->header;
  if (answer.op != Op::kAnswer || !state->copies().encodes()) {
    WeightVersion given = state->WeightsFor(answer);
    header.version = given.version;
    frame->payload = std::move(given.weights);
    return;
  }
  TraceSpan span(answer.again ? nullptr : trace_->log(), proto::TraceEvent::ENCODE,
                 ChunkId(header.chunk), answer.clock, header.node);
  const numerics::WeightState& weights = state->weights();
  absl::StatusOr<NodeCopies::Answer> encoded =
      answer.again ? state->copies().WholeCopy(answer.node)
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

}  // namespace strata::server
