#ifndef STRATA_WORKER_EXCHANGE_PARAMETER_SERVER_CORE_H_
#define STRATA_WORKER_EXCHANGE_PARAMETER_SERVER_CORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/job/arena.h"
#include "proto/control.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/push_window.h"
#include "worker/exchange/shard_line.h"

namespace strata::worker {

// What the core wants of the node, besides WireActions.
struct NodeAction {
  enum class Kind {
    kFirstWeights,  // answer with OnPayload
    kSum,           // the chunk's sum of `clock`: answer with OnPayload
    kDeliver,       // `weights` are the answer to the push of `clock`
    kDeliverFinal,  // `weights` are the job's final ones
  };
  Kind kind = Kind::kSum;
  ChunkId chunk;
  uint64_t clock = 0;
  Bytes weights;
};

struct CoreActions {
  std::vector<WireAction> wire;
  std::vector<NodeAction> node;
};

// One node's side of the parameter-server exchange: INIT of every chunk, then PUSHPULL as chunks
// become ready, at last RETIRE and CUT. Delivers exactly once per (chunk, clock) whatever
// connections lose, repeat or reorder.
//
// A pure state machine: events in, actions out; time comes with the events. Errors end the job and
// name the node, the server's address and the chunk.
class ParameterServerCore {
 public:
  struct Options {
    proto::JobRecord record;  // with placement and layout
    NodeId node;
    uint32_t incarnation = 0;
    LineTiming timing;
    PushWindow::Reserve reserve = PushWindow::Reserve::kLowest;
  };

  // Errors: InvalidArgument naming the field of the placement.
  static absl::StatusOr<std::unique_ptr<ParameterServerCore>> Create(const Options& options);

  void Start(absl::Time now, CoreActions* actions);
  // See Exchange.
  void Submit(ChunkId chunk, CoreActions* actions);
  void Finish(uint64_t clocks, absl::Time now, CoreActions* actions);
  // What kFirstWeights or kSum asked for.
  void OnPayload(const NodeAction& asked, Bytes payload, uint32_t samples, absl::Time now,
                 CoreActions* actions);

  void OnConnected(ShardId shard, transport::ConnectionId connection, absl::Time now,
                   CoreActions* actions);
  void OnConnectFailed(ShardId shard, const absl::Status& why, absl::Time now,
                       CoreActions* actions);
  // Events of connections that are no longer in use are ignored.
  void OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
              CoreActions* actions);
  void OnNotTaken(const WireAction& send, absl::Time now);
  absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       CoreActions* actions);
  absl::Status OnTime(absl::Time now, CoreActions* actions);
  absl::Time deadline() const;

  // Ends all connections; nothing may follow.
  void Close(CoreActions* actions);

  Exchange::Phase phase() const { return phase_; }
  const ExchangeCounters& counters() const { return counters_; }
  // Adds how it stands with each server that holds a chunk. REQUIRES: started.
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const;
  const std::string& address(ShardId shard) const { return shards_[shard.value()].line.address(); }

 private:
  struct Chunk {
    uint32_t shard = 0;
    uint64_t submitted = 0;  // clocks
    uint64_t answered = 0;   // clocks
    uint64_t version = 0;    // of the weights in hand
  };
  struct Shard {
    ShardLine line;
    std::vector<ChunkId> chunks;
    PushWindow window;
    uint32_t next = 0;       // of `chunks`: the next to INIT or CUT
    uint32_t confirmed = 0;  // of `chunks`: with INIT or CUT answered
    bool retiring = false;
  };

  ParameterServerCore(const Options& options, ChunkMap map);

  absl::Status Named(const absl::Status& status) const;
  Shard* Find(transport::ConnectionId connection);
  void Seed(Shard* shard, CoreActions* actions);
  void Push(Shard* shard, CoreActions* actions);
  void MaybeRetire(Shard* shard, absl::Time now, CoreActions* actions);
  void Cut(Shard* shard, absl::Time now, CoreActions* actions);
  absl::Status OnAnswer(Shard* shard, const wire::Header& asked, const wire::Frame& frame,
                        absl::Time now, CoreActions* actions);
  void OnInitOk(Shard* shard, const wire::Header& answer, CoreActions* actions);
  void OnPushAnswer(Shard* shard, const wire::Header& asked, const wire::Frame& frame,
                    absl::Time now, CoreActions* actions);
  void OnCutAnswer(Shard* shard, const wire::Frame& frame, absl::Time now, CoreActions* actions);
  void CountBytes();

  const Options options_;
  const ChunkMap map_;
  const uint32_t window_;
  Exchange::Phase phase_ = Exchange::Phase::kSeeding;
  uint64_t clocks_ = 0;   // kFinishing: pushes of every chunk
  uint32_t settled_ = 0;  // shards that are done with the phase
  std::vector<Chunk> chunks_;
  std::vector<Shard> shards_;
  ExchangeCounters counters_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_PARAMETER_SERVER_CORE_H_
