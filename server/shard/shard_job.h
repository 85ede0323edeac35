#ifndef STRATA_SERVER_SHARD_SHARD_JOB_H_
#define STRATA_SERVER_SHARD_SHARD_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/shard/chunk_state.h"
#include "server/shard/shard_core.h"
#include "server/shard/shard_plan.h"
#include "server/shard/shard_trace.h"

namespace strata::server {

// One job on one shard: who its connections are, which frames are taken, and its chunks.
//
// Threads: one.
class ShardJob {
 public:
  // All outlive it; `scratch` is the thread's, `refusals` is added to. `trace` null: none.
  ShardJob(ShardPlan plan, const kernels::Kernels& kernels, BufferPool& pool,
           kernels::EncoderScratch* scratch, Refusals* refusals, std::unique_ptr<TraceLog> trace);

  // HELLO binds a connection to a logical node and answers. True: it is bound now.
  bool OnHello(transport::ConnectionId connection, const wire::Frame& frame,
               const wire::Hello& hello, std::vector<ShardAction>* actions);
  // A frame of a bound connection.
  void OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
               std::vector<ShardAction>* actions);
  void OnDisconnected(transport::ConnectionId connection);

  // Answers a frame with an error and counts it.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions);

  const ShardCounters& counters() const { return counters_; }
  TraceLog* trace() { return trace_.log(); }
  // How far each node is, for one report after the other. None where the shard holds no chunk of
  // the job, and in reports between two looks: in a large job looking at every node's every chunk
  // takes longer than a shard should stand still once a second.
  std::vector<proto::NodeClock> NextNodeClocks();
  // Held now. Looks at every chunk.
  uint64_t MemoryBytes() const;
  // Gradient buffers held for incomplete clocks of a chunk; 0 where it is not here.
  size_t HeldSums(ChunkId chunk) const;
  // In order.
  std::vector<transport::ConnectionId> Connections() const;

 private:
  std::vector<proto::NodeClock> NodeClocks() const;

  struct Binding {
    size_t node = 0;
    uint32_t incarnation = 0;
  };
  struct Node {
    uint32_t incarnation = 0;  // newest that said HELLO
    // Connections of that incarnation, the one that spoke last at the end; see Join.
    std::vector<transport::ConnectionId> connections;
    // Of them, the one that brought the newest push.
    std::optional<transport::ConnectionId> proven;
  };
  // What is wrong with a frame; kRetry where it may be right later.
  struct Fault {
    wire::ErrorCode code = wire::ErrorCode::kNone;
    std::string reason;
    bool retry = false;
  };

  std::optional<Fault> CheckHello(const wire::Header& header, const wire::Hello& hello) const;
  std::optional<Fault> CheckEra(const wire::Header& header) const;
  std::optional<Fault> CheckSender(const Binding& binding, const wire::Header& header) const;
  std::optional<Fault> CheckChunk(const wire::Frame& frame) const;
  void Reject(transport::ConnectionId connection, const wire::Frame& frame, const Fault& fault,
              std::vector<ShardAction>* actions);

  // Who says HELLO, or any other frame that is taken, gets the node's answers, too. They go to
  // every connection of a node: a HELLO that somebody has captured and sends again, or one that was
  // slow and comes over a connection that the node has given up, does not turn them away from the
  // node itself, and a node that comes back before its former connection is known to be lost gets
  // them at once. Of more than kConnectionsMax, the one that was silent for longest goes; the
  // proven one stays, because only the node itself can push what it has not pushed before.
  void Join(transport::ConnectionId connection, uint32_t incarnation, Node* node);

  void OnInit(transport::ConnectionId connection, const wire::Frame& frame,
              std::vector<ShardAction>* actions);
  void OnPushPull(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                  std::vector<ShardAction>* actions);
  void OnCut(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
             std::vector<ShardAction>* actions);
  void OnRetire(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                std::vector<ShardAction>* actions);

  void SendDue(uint32_t chunk, const std::vector<DueAnswer>& due,
               std::vector<ShardAction>* actions);
  // An answer, or the refusal to make one.
  wire::Frame FrameOf(uint32_t chunk, const DueAnswer& answer);
  void SetWeights(const DueAnswer& answer, ChunkState* state, wire::Frame* frame);
  void Send(transport::ConnectionId connection, wire::Frame frame,
            std::vector<ShardAction>* actions);

  const ShardPlan plan_;
  const kernels::Kernels& kernels_;
  absl::flat_hash_map<uint32_t, size_t> node_index_;  // by NodeId
  // By ChunkId; fixed after construction. Pointers, because a chunk does not move.
  absl::flat_hash_map<uint32_t, std::unique_ptr<ChunkState>> chunks_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<transport::ConnectionId, Binding> bindings_;
  ShardCounters counters_;
  size_t reports_to_skip_ = 0;  // until the next look at all chunks
  Refusals* const refusals_;
  ShardTrace trace_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_JOB_H_
