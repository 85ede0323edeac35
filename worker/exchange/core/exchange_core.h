#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/block_source.h"
#include "common/link/link.h"
#include "common/trace/trace_log.h"
#include "proto/processes.pb.h"
#include "worker/exchange/core/core_actions.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/link_core.h"
#include "worker/exchange/core/node_cuts.h"
#include "worker/exchange/core/push_window.h"

namespace strata::worker {

// One node's side of a job.
struct CoreOptions {
  proto::JobRecord record;  // with placement and layout
  NodeId node;
  uint32_t incarnation = 0;
  LinkTiming timing;
  PushWindow::Reserve reserve = PushWindow::Reserve::kLowest;
  // Gives buffers for payloads; null: the allocator does.
  std::shared_ptr<BlockSource> memory;
  // The node's sums are payloads of the job's `push` already. Only where TakesPayloads.
  bool takes_payloads = false;
  // What the node goes on from, where record.has_resume(); null: it keeps nothing itself.
  std::shared_ptr<const NodeResume> resume;
  // Keeps the node's events and outlives the exchange; null: none are kept.
  TraceLog* trace = nullptr;
};

LinkIdentity MakeIdentity(const CoreOptions& options);
// Whether the node begins with weights that it is given: those of another one, which has rank 0, or
// those that the job goes on from.
bool TakesFirstWeights(const proto::JobRecord& record, NodeId node);
// Whether a node's process begins in the midst of the job: it takes the place of one that died, or
// the node joins the job.
bool Rejoins(const proto::JobRecord& record, NodeId node, uint32_t incarnation);
// "node N: " before the message of an error.
absl::Status NamedBy(NodeId node, const absl::Status& status);

// What a node asks of its exchange, and a layer of the stage below it. What the stage wants in
// return goes into `actions`. Errors end the job and name the node and the chunk; what is in the
// actions then is still to be done.
class ExchangeStage {
 public:
  virtual ~ExchangeStage() = default;

  // See Exchange.
  virtual absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) = 0;
  virtual absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) = 0;
  // What kFirstWeights or kSum asked for.
  virtual absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                 absl::Time now, CoreActions* actions) = 0;
  virtual uint64_t first_clock() const { return 0; }

  // Adds to the chunk's image what this stage and those below keep of it between two clocks.
  // REQUIRES: the chunk's last clock has been answered, and nothing of the next one is encoded.
  virtual void AddToImage(ChunkId chunk, NodeChunkImage* image) {}
  // Goes on from such an image, before anything else; all of it is copied. Errors: InvalidArgument
  // saying what does not fit the chunk.
  virtual absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) {
    return absl::OkStatus();
  }
};

// One node's side of an exchange. Weights are delivered exactly once per (chunk, clock) whatever
// connections lose, repeat or reorder.
class ExchangeCore : public ExchangeStage, public LinkCore {
 public:
  virtual Exchange::Phase phase() const = 0;
  virtual bool goes_on() const { return false; }
  virtual NodeCuts TakeCuts() { return {}; }
  virtual void LetGoOf(NodeCuts::Kind kind, uint64_t clock) {}
  virtual const ExchangeCounters& counters() const = 0;
  virtual size_t memory_bytes() const = 0;
  // Says where a shard lies now; nothing to exchanges without shards.
  virtual void OnShardMoved(const ShardMove& move, absl::Time now, CoreActions* actions) {}
  // See Exchange.
  virtual void LeaveAt(uint64_t clock) {}
  virtual absl::StatusOr<StoppedRing> StopRing(uint32_t number, absl::Time now,
                                               CoreActions* actions) {
    return absl::FailedPreconditionError("the job does not go on without a node that is lost");
  }
  virtual absl::Status FormRing(const proto::FormRing& forming, absl::Time now,
                                CoreActions* actions) {
    return absl::OkStatus();
  }
  // Adds how the node stands with each peer that it connects to. REQUIRES: started.
  virtual void AddActivity(absl::Time now, proto::NodeActivity* activity) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
