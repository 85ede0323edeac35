// The part of ShardJob that gives nodes weights to begin with.
#include <optional>
#include <utility>

#include "server/shard/frames/reply.h"
#include "server/shard/shard_job.h"

namespace strata::server {

using wire::ErrorCode;
using wire::Op;

void ShardJob::GiveFirst(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                         size_t chunk, std::vector<ShardAction>* actions) {
  if (!chunks_[chunk]->weights().seeded()) {
    return sender_.Send(connection, RetryReply(frame.header, ErrorCode::kNone), actions);
  }
  wire::Frame answer = Reply(frame.header, Op::kFirst);
  WeightVersion given = chunks_[chunk]->WeightsToBeginWith(node);
  answer.header.element_count = plan_.chunks[chunk].elements;
  answer.header.version = given.version;
  answer.header.received = chunks_[chunk]->Received(node);
  answer.payload = std::move(given.weights);
  sender_.Send(connection, std::move(answer), actions);
}

void ShardJob::OnPull(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                      size_t chunk, std::vector<ShardAction>* actions) {
  const ChunkState& state = *chunks_[chunk];
  // The change by which it joins is on its way here.
  if (!plan_.views->HasEver(plan_.nodes[node])) {
    return sender_.Send(connection, RetryReply(frame.header, ErrorCode::kNone), actions);
  }
  wire::Frame answer = Reply(frame.header, Op::kPulled);
  answer.header.flags = wire::kFlagEmpty;
  answer.header.received = kClockInfinity;
  const bool only_counts = (frame.header.flags & wire::kFlagEmpty) != 0;
  if (state.weights().seeded()) {
    answer.header.received = state.Received(node);
    answer.header.version = state.weights().version();
  }
  if (only_counts || !state.weights().seeded()) {
    return sender_.Send(connection, std::move(answer), actions);
  }
  PulledWeights pulled = state.WeightsOf(node, frame.header.clock);
  const std::optional<uint64_t> leaves_at = plan_.views->LeavesAt(plan_.nodes[node]);
  const bool makes_no_step =
      leaves_at && frame.header.clock >= *leaves_at && answer.header.received >= frame.header.clock;
  if (makes_no_step && pulled.state == PulledWeights::State::kNowhere) {
    pulled = {.state = PulledWeights::State::kHere, .weights = state.WeightsToBeginWith(node)};
  }
  if (pulled.state == PulledWeights::State::kNotYet) {
    return pulls_.Add(chunk, {.connection = connection, .node = node, .frame = frame});
  }
  if (pulled.state == PulledWeights::State::kHere) {
    answer.header.flags = 0;
    answer.header.element_count = plan_.chunks[chunk].elements;
    answer.header.version = pulled.weights.version;
    answer.header.base_version = pulled.base;
    answer.payload = std::move(pulled.weights.weights);
  }
  sender_.Send(connection, std::move(answer), actions);
}

// What was asked may be refused by now: another process has taken the node's place, or its weights
// are gone.
void ShardJob::AnswerPulls(size_t chunk, std::vector<ShardAction>* actions) {
  for (const WaitingPulls::Pull& pull : pulls_.Take(chunk)) {
    const Binding* const bound = connections_.Find(pull.connection);
    if (bound == nullptr || bound->node != pull.node) continue;
    size_t index = 0;
    const std::optional<FrameFault> fault = gate_.Check(*bound, pull.frame, &index);
    if (fault) {
      Reject(pull.connection, pull.frame, *fault, actions);
    } else {
      OnPull(pull.connection, pull.node, pull.frame, chunk, actions);
    }
  }
}

}  // namespace strata::server
