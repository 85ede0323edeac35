#ifndef STRATA_SERVER_SHARD_FRAME_GATE_H_
#define STRATA_SERVER_SHARD_FRAME_GATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "server/shard/node_connections.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// Why a frame is not taken.
struct FrameFault {
  wire::ErrorCode code = wire::ErrorCode::kNone;
  std::string reason;
  bool retry = false;  // it may be valid later
};

// Decides which peers may send which frames to one job on one shard: checks sender, job, view,
// generation, chunk and payload of a frame against the job's plan and the connections' HELLOs.
// Checks against the chunk's state, such as its clock, come later: chunk_state.h.
//
// Threads: one.
class FrameGate {
 public:
  // Both outlive it.
  FrameGate(const ShardPlan& plan, const NodeConnections& connections);

  // Checks HELLO. If it is valid, sets `binding` to its content.
  std::optional<FrameFault> CheckHello(transport::ConnectionId connection,
                                       const wire::Header& header, const wire::Hello& hello,
                                       Binding* binding) const;
  // Checks the HELLO of a server that claims to be the shard's primary.
  std::optional<FrameFault> CheckPrimary(const wire::Header& header,
                                         const wire::Hello& hello) const;
  // Checks a change from the primary. If it is valid, sets `node` and `chunk` to the indices of its
  // node and chunk, if it names them.
  std::optional<FrameFault> CheckChange(const wire::Frame& frame, size_t* node,
                                        size_t* chunk) const;
  // Checks any other frame of a bound connection. If it is valid, sets `chunk` to the index of its
  // chunk in the plan. RETIRE names no chunk.
  std::optional<FrameFault> Check(const Binding& binding, const wire::Frame& frame,
                                  size_t* chunk) const;

  // Checks a frame of rows of a bound connection. If it is valid, sets `bucket` to the index of its
  // bucket in the plan. RETIRE and LOOKUP name no bucket.
  std::optional<FrameFault> CheckRows(const Binding& binding, const wire::Frame& frame,
                                      size_t* bucket) const;

  // Returns the chunk's index in the plan; nullopt: it is not on this shard.
  std::optional<size_t> IndexOf(ChunkId chunk) const;

 private:
  std::optional<FrameFault> CheckEra(const wire::Header& header) const;
  std::optional<FrameFault> CheckSender(const Binding& binding, const wire::Header& header) const;
  std::optional<FrameFault> CheckChunk(const Binding& binding, const wire::Header& header,
                                       size_t* chunk) const;
  std::optional<FrameFault> CheckPayload(const wire::Frame& frame, const OwnChunk& chunk) const;
  // The codec that the frame must have.
  wire::Codec CodecFor(const wire::Header& header) const;

  const ShardPlan& plan_;
  const NodeConnections& connections_;
  absl::flat_hash_map<NodeId, size_t> node_index_;
  absl::flat_hash_map<ChunkId, size_t> chunk_index_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAME_GATE_H_
