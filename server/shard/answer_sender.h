#ifndef STRATA_SERVER_SHARD_ANSWER_SENDER_H_
#define STRATA_SERVER_SHARD_ANSWER_SENDER_H_

#include <string>
#include <vector>

#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/node_connections.h"
#include "server/shard/shard_core.h"
#include "server/shard/shard_plan.h"
#include "server/shard/shard_rows.h"
#include "server/shard/shard_trace.h"

namespace strata::server {

// Everything that one job sends from one shard: makes the frames of due answers, finds their
// connections, and counts them.
//
// Threads: one.
class AnswerSender {
 public:
  // The arguments outlive this object; `trace`, `counters` and `refusals` are added to.
  AnswerSender(const ShardPlan& plan, const NodeConnections& connections, ShardTrace* trace,
               ShardCounters* counters, Refusals* refusals);

  // Sends a frame that is not an answer to a push.
  void Send(transport::ConnectionId connection, wire::Frame frame,
            std::vector<ShardAction>* actions);
  // Answers a frame with an error and counts it.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions);
  // Sends due answers on the connections in their nodes' slots.
  void SendDue(const OwnChunk& chunk, ChunkState* state, const std::vector<DueAnswer>& due,
               std::vector<ShardAction>* actions);
  // Sends answers only on the connection that repeated its request.
  void SendAgain(transport::ConnectionId connection, const OwnChunk& chunk, ChunkState* state,
                 const std::vector<DueAnswer>& due, std::vector<ShardAction>* actions);
  // Sends answers to pushes of rows on their nodes' connections for rows.
  void SendRows(std::vector<RowsAnswer>& due, const ShardRows& rows,
                std::vector<ShardAction>* actions);

 private:
  // Returns the header of an answer to a node's push.
  wire::Header HeaderFor(wire::Op op, uint32_t chunk, size_t node, uint64_t clock) const;
  wire::Frame FrameFor(RowsAnswer& answer, const ShardRows& rows) const;
  // Returns the answer, or an error if it cannot be made.
  wire::Frame FrameFor(const OwnChunk& chunk, ChunkState* state, const DueAnswer& answer);
  void SetWeights(const DueAnswer& answer, ChunkState* state, wire::Frame* frame);

  const ShardPlan& plan_;
  const NodeConnections& connections_;
  ShardTrace* const trace_;
  ShardCounters* const counters_;
  Refusals* const refusals_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_ANSWER_SENDER_H_
