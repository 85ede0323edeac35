#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"
#include "common/image/node_image.h"
#include "common/job/trace_log.h"
#include "common/job/views.h"
#include "common/transport/link.h"
#include "numerics/checked_payload.h"
#include "proto/processes.pb.h"
#include "proto/record.pb.h"
#include "worker/exchange/core/link_core.h"
#include "worker/exchange/core/push_window.h"

namespace strata::worker {

// One node's parts of checkpoints.
struct NodeCuts {
  enum class Kind {
    kOwn,     // what the node alone knows: NodesKeepState
    kSlices,  // exchange: RING: weights and optimizer state of what it updates
  };
  std::vector<Cut<NodeChunkImage>> own;
  std::vector<Cut<ChunkImage>> slices;
};

// The state that a node resumes from.
struct NodeResume {
  std::vector<NodeChunkImage> own;  // of this node, by range: NodesKeepState
  std::vector<ChunkImage> slices;   // exchange: RING: of all nodes, by range
};

// Facts of the step that a sum of gradients belongs to.
struct StepFacts {
  uint32_t samples = 0;  // of all ranks of the node
  float rate = 0;        // the step's learning rate, where the ranks say rates
};

// The node that an exchange joins to the others. Its calls come from within Exchange's own, on the
// same thread.
class ExchangeNode {
 public:
  struct Sum {
    // fp32, as many as the chunk has elements, or their payload where the exchange was created for
    // such (CoreOptions::takes_payloads). Kept until it is answered.
    Bytes bytes;
    StepFacts step;
  };

  virtual ~ExchangeNode() = default;

  // The node's first weights of the chunk.
  virtual Bytes FirstWeights(ChunkId chunk) = 0;
  // The sum of the ranks' gradients of `clock`, once per (chunk, clock), after Submit.
  virtual Sum TakeSum(ChunkId chunk, uint64_t clock) = 0;
  // The errors of the five that follow end the job: those of the device that holds the weights.
  //
  // Part of the chunk's next weights, from `first_element` of the chunk on.
  virtual absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) = 0;
  // Adds to the weights that the node has there: the first ones, or those that it has taken last.
  virtual absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                                    const numerics::CheckedPayload& delta) = 0;
  // All of the chunk's weights after `clock` have been taken: once per (chunk, clock).
  virtual absl::Status Landed(ChunkId chunk, uint64_t clock) = 0;
  // The chunk's first weights, of another node, in place of this one's own.
  virtual absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) = 0;
  // Weights of the chunk once every node has finished.
  virtual absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) = 0;

  // True if the node does this phase before Submit and notes it in the trace itself: SUM of
  // TakeSum, ENCODE of what is done with payloads.
  virtual bool Notes(proto::TraceEvent::Phase phase) const { return false; }
};

// Where a shard of the job lies from now on.
struct ShardMove {
  ShardId shard;
  std::string address;      // "tcp://host:port"
  uint32_t generation = 0;  // one more with each change
};

// Answers by staleness; the last bin is "or more".
inline constexpr size_t kStalenessBins = 32;

struct ExchangeCounters {
  uint64_t bytes_pushed = 0;    // frames of pushes, repetitions included
  uint64_t bytes_answered = 0;  // frames of their answers
  uint64_t pushes = 0;          // without repetitions
  std::array<uint64_t, kStalenessBins> staleness = {};
};

// A node's part of a job; `own` is 0 where the job's view has no such node.
struct NodeShare {
  uint64_t ranks = 0, own = 0;

  static NodeShare Of(const proto::JobRecord& record, NodeId node) {
    NodeShare share;
    for (const proto::LogicalNode& one : record.view().nodes()) {
      share.ranks += one.ranks();
      if (one.node() == node.value()) share.own = one.ranks();
    }
    return share;
  }

  double JobSamplesPerOwn() const { return own == 0 ? 0 : static_cast<double>(ranks) / own; }
  // Returns how many samples the whole job has taken when the node has taken so many and all nodes
  // are as fast. Where ranks have equal batches all nodes say the same.
  uint64_t JobSamples(uint64_t samples) const { return own == 0 ? 0 : samples * ranks / own; }
};

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
  // The state that the node resumes from, where record.has_resume(); null: it keeps none itself.
  std::shared_ptr<const NodeResume> resume;
  // Keeps the node's events and outlives the exchange; null: none are kept.
  TraceLog* trace = nullptr;
};

LinkIdentity MakeIdentity(const CoreOptions& options);
// True if the node begins with weights that it is given: those of another one, which has rank 0, or
// those of a checkpoint.
bool TakesFirstWeights(const proto::JobRecord& record, NodeId node);
// True if a node's process begins in the midst of the job: it replaces one that died, or the node
// joins the job.
bool Rejoins(const proto::JobRecord& record, NodeId node, uint32_t incarnation);
// "node N: " before the message of an error.
absl::Status NamedBy(NodeId node, const absl::Status& status);

// The calls of a node to its exchange, and of a layer to the stage below it. Requests of the stage
// in return go into `actions`. Errors end the job and name the node and the chunk; the actions are
// carried out all the same.
class ExchangeStage {
 public:
  virtual ~ExchangeStage() = default;

  // Every rank of the node has published the chunk for its next clock: one more than the chunk's
  // last one. REQUIRES: kTraining; the answer to the chunk's last push has been taken.
  virtual absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) = 0;
  // The node's ranks make no more than `clocks` steps. Once, after the last Submit.
  virtual absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) = 0;
  // The answer to kFirstWeights or kSum.
  virtual absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                 absl::Time now, CoreActions* actions) = 0;
  // The clock that the node begins with: 0 unless the job resumes from a checkpoint.
  // REQUIRES: kTraining or later.
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

// One node's side of an exchange: how the sums of all nodes become the weights of the next step.
// Weights are delivered exactly once per (chunk, clock) whatever connections lose, repeat or
// reorder. Exchange drives it.
class ExchangeCore : public ExchangeStage, public LinkCore {
 public:
  enum class Phase { kSeeding, kTraining, kFinishing, kFinished };

  virtual Phase phase() const = 0;
  // True while sums are on their way whose chunks have landed all the same: double buffering.
  virtual bool goes_on() const { return false; }
  // Returns what the node is to write of checkpoints. Cuts with images count as held until
  // ReleaseCut.
  virtual NodeCuts TakeCuts() { return {}; }
  // The images of a cut of the kind are no longer in memory.
  virtual void ReleaseCut(NodeCuts::Kind kind, uint64_t clock) {}
  virtual const ExchangeCounters& counters() const = 0;
  // Bytes of the exchange's own weights, optimizer state and buffers.
  virtual size_t memory_bytes() const = 0;
  // Unanswered requests are repeated there; older news than what is known changes nothing.
  // Exchanges without shards ignore it.
  virtual void OnShardMoved(const ShardMove& move, absl::Time now, CoreActions* actions) {}
  // The node leaves the job by plan before this clock: where its ranks make as many steps, Finish
  // waits for no other node, and brings no final weights. Before Finish.
  virtual void LeaveAt(uint64_t clock) {}
  // Stops exchanging with other nodes until FormRing with this number or a higher one,
  // and returns how far this node is; an older number than is known changes nothing. Errors, which
  // do not end the job here: FailedPrecondition, why it cannot continue without a node.
  virtual absl::StatusOr<StoppedRing> StopRing(uint32_t number, absl::Time now,
                                               CoreActions* actions) {
    return absl::FailedPreconditionError("the job does not go on without a node that is lost");
  }
  // Continues among these nodes; old news changes nothing. Errors: InvalidArgument, it does not fit
  // what this node has made.
  virtual absl::Status FormRing(const proto::FormRing& forming, absl::Time now,
                                CoreActions* actions) {
    return absl::OkStatus();
  }
  // Adds how the node stands with each peer that it connects to. REQUIRES: started.
  virtual void AddActivity(absl::Time now, proto::NodeActivity* activity) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
