#ifndef STRATA_SERVER_SHARD_SHARD_JOB_H_
#define STRATA_SERVER_SHARD_SHARD_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/frames/node_line.h"
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
  void OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // See ShardCore.
  void OnTime(absl::Time now, std::vector<ShardAction>* actions);
  absl::Time deadline() const {
    return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
  }
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
  size_t HeldSums(ChunkId chunk) const {
    const auto found = chunks_.find(chunk.value());
    return found == chunks_.end() ? 0 : found->second->held();
  }
  // In order.
  std::vector<transport::ConnectionId> Connections() const;

 private:
  std::vector<proto::NodeClock> NodeClocks() const;

  struct Binding {
    size_t node = 0;
    uint32_t line = 0;  // of the node's
    uint32_t incarnation = 0;
  };
  struct Node {
    uint32_t incarnation = 0;     // newest that said HELLO; all connections are of that one
    std::vector<NodeLine> lines;  // plan_.connections
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
  std::optional<Fault> CheckChunk(const Binding& binding, const wire::Frame& frame) const;
  void Reject(transport::ConnectionId connection, const wire::Frame& frame, const Fault& fault,
              std::vector<ShardAction>* actions);

  // Who says HELLO, or any other frame that is taken, gets the answers of the line, too.
  void Join(transport::ConnectionId connection, const Binding& binding);

  void OnInit(transport::ConnectionId connection, const wire::Frame& frame,
              std::vector<ShardAction>* actions);
  void OnPushPull(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                  absl::Time now, std::vector<ShardAction>* actions);
  void OnCut(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
             std::vector<ShardAction>* actions);
  void OnRetire(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                absl::Time now, std::vector<ShardAction>* actions);

  // The chunk's deadline may be another one than before.
  void KeepDeadline(uint32_t chunk, absl::Time before);
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
  absl::flat_hash_map<uint32_t, uint32_t> line_of_chunk_;
  std::set<std::pair<absl::Time, uint32_t>> deadlines_;  // of chunks that have one
  std::vector<Node> nodes_;
  absl::flat_hash_map<transport::ConnectionId, Binding> bindings_;
  ShardCounters counters_;
  size_t reports_to_skip_ = 0;  // until the next look at all chunks
  Refusals* const refusals_;
  ShardTrace trace_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_JOB_H_
