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
    kOwn,     // state that only the node has: NodesKeepState
    kSlices,  // exchange: RING: weights and optimizer state of the node's slices
  };
  std::vector<Cut<NodeChunkImage>> own;
  std::vector<Cut<ChunkImage>> slices;
};

// The state that a node resumes from.
struct NodeResume {
  std::vector<NodeChunkImage> own;  // of this node, by range: NodesKeepState
  std::vector<ChunkImage> slices;   // exchange: RING: of all nodes, by range
};

// Facts about the step that a gradient sum belongs to.
struct StepFacts {
  uint32_t samples = 0;  // of all ranks of the node
  float rate = 0;        // the step's learning rate, if the ranks give it
};

// The node that an exchange connects to the others. It is called from within Exchange's own calls,
// on the same thread.
class ExchangeNode {
 public:
  struct Sum {
    // fp32, one value per element of the chunk, or their payload if the exchange was created for
    // that (CoreOptions::takes_payloads). Kept until it is answered.
    Bytes bytes;
    StepFacts step;
  };

  virtual ~ExchangeNode() = default;

  // Returns the node's first weights of the chunk.
  virtual Bytes FirstWeights(ChunkId chunk) = 0;
  // Returns the sum of the ranks' gradients of `clock`, once per (chunk, clock), after Submit.
  virtual Sum TakeSum(ChunkId chunk, uint64_t clock) = 0;
  // Errors of the next five end the job; they come from the device that holds the weights.
  //
  // Takes part of the chunk's next weights, from `first_element` of the chunk on.
  virtual absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) = 0;
  // Adds to the node's weights there: the first ones, or those that it took last.
  virtual absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                                    const numerics::CheckedPayload& delta) = 0;
  // All of the chunk's weights after `clock` have been taken: once per (chunk, clock).
  virtual absl::Status Landed(ChunkId chunk, uint64_t clock) = 0;
  // Takes the chunk's first weights from another node, replacing this one's own.
  virtual absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) = 0;
  // Takes weights of the chunk once every node has finished.
  virtual absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) = 0;

  // Returns whether the node performs this phase before Submit and traces it itself: SUM for
  // TakeSum, ENCODE for payloads.
  virtual bool Notes(proto::TraceEvent::Phase phase) const { return false; }
};

// The new place of a shard of the job.
struct ShardMove {
  ShardId shard;
  std::string address;      // "tcp://host:port"
  uint32_t generation = 0;  // incremented with each change
};

// Answers by staleness; the last bin is "or more".
inline constexpr size_t kStalenessBins = 32;

struct ExchangeCounters {
  uint64_t bytes_pushed = 0;    // frames of pushes, including repetitions
  uint64_t bytes_answered = 0;  // frames of answers
  uint64_t pushes = 0;          // without repetitions
  std::array<uint64_t, kStalenessBins> staleness = {};
};

// A node's part of a job; `own` is 0 if the job's view has no such node.
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
  // Returns how many samples the whole job has processed when the node has processed `samples` and
  // all nodes are equally fast. If ranks have equal batches all nodes return the same.
  uint64_t JobSamples(uint64_t samples) const { return own == 0 ? 0 : samples * ranks / own; }
};

// One node's side of a job.
struct CoreOptions {
  proto::JobRecord record;  // with placement and layout
  NodeId node;
  uint32_t incarnation = 0;
  LinkTiming timing;
  PushWindow::Reserve reserve = PushWindow::Reserve::kLowest;
  // Provides buffers for payloads; null: the allocator does.
  std::shared_ptr<BlockSource> memory;
  // The node's sums are already payloads of the job's `push`. Only if TakesPayloads.
  bool takes_payloads = false;
  // The state that the node resumes from, if record.has_resume(); null: it keeps none itself.
  std::shared_ptr<const NodeResume> resume;
  // Records the node's events and outlives the exchange; null: none are recorded.
  TraceLog* trace = nullptr;
};

LinkIdentity MakeIdentity(const CoreOptions& options);
// Returns whether the node begins with weights that it is given: those of the node with rank 0, or
// those of a checkpoint.
bool TakesFirstWeights(const proto::JobRecord& record, NodeId node);
// Returns whether a node's process begins in the middle of the job: it replaces one that died, or
// the node joins the job.
bool Rejoins(const proto::JobRecord& record, NodeId node, uint32_t incarnation);
// Prefixes the message of an error with "node N: ".
absl::Status NamedBy(NodeId node, const absl::Status& status);

// The calls of a node to its exchange, and of a layer to the stage below it. Requests of the stage
// in return go into `actions`. Errors end the job and name the node and the chunk; the actions must
// be performed all the same.
class ExchangeStage {
 public:
  virtual ~ExchangeStage() = default;

  // Every rank of the node has published the chunk for its next clock: one more than the chunk's
  // last one. REQUIRES: kTraining; the answer to the chunk's last push has been taken.
  virtual absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) = 0;
  // The node's ranks make `clocks` steps in total. Once, after the last Submit.
  virtual absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) = 0;
  // The answer to kFirstWeights or kSum.
  virtual absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                 absl::Time now, CoreActions* actions) = 0;
  // The clock that the node begins with: 0 unless the job resumes from a checkpoint.
  // REQUIRES: kTraining or later.
  virtual uint64_t first_clock() const { return 0; }

  // Adds to the chunk's image the state that this stage and those below keep between two clocks.
  // REQUIRES: the chunk's last clock has been answered, and nothing of the next one is encoded.
  virtual void AddToImage(ChunkId chunk, NodeChunkImage* image) {}
  // Continues from such an image, before anything else; everything is copied. Errors:
  // InvalidArgument saying what does not fit the chunk.
  virtual absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) {
    return absl::OkStatus();
  }
};

// One node's side of an exchange: turns the sums of all nodes into the weights of the next step.
// Weights are delivered exactly once per (chunk, clock) whatever connections lose, repeat or
// reorder. Exchange drives it.
class ExchangeCore : public ExchangeStage, public LinkCore {
 public:
  enum class Phase { kSeeding, kTraining, kFinishing, kFinished };

  virtual Phase phase() const = 0;
  // Returns whether sums are in flight although their chunks have landed: double buffering.
  virtual bool goes_on() const { return false; }
  // Returns the node's parts of checkpoints to write. Cuts with images count as held until
  // ReleaseCut.
  virtual NodeCuts TakeCuts() { return {}; }
  // The images of a cut of the kind are no longer in memory.
  virtual void ReleaseCut(NodeCuts::Kind kind, uint64_t clock) {}
  virtual const ExchangeCounters& counters() const = 0;
  // Bytes of the exchange's own weights, optimizer state and buffers.
  virtual size_t memory_bytes() const = 0;
  // Repeats unanswered requests at the new place; outdated news changes nothing. Exchanges without
  // shards ignore it.
  virtual void OnShardMoved(const ShardMove& move, absl::Time now, CoreActions* actions) {}
  // The node leaves the job as planned before this clock. If its ranks make that many steps, Finish
  // waits for no other node, and delivers no final weights. Before Finish.
  virtual void LeaveAt(uint64_t clock) {}
  // Stops the exchange with other nodes until FormRing with this number or a higher one, and
  // returns this node's progress; an outdated number changes nothing. Errors, which do not end the
  // job here: FailedPrecondition with why it cannot continue without a node.
  virtual absl::StatusOr<StoppedRing> StopRing(uint32_t number, absl::Time now,
                                               CoreActions* actions) {
    return absl::FailedPreconditionError("the job does not go on without a node that is lost");
  }
  // Continues among these nodes; outdated news changes nothing. Errors: InvalidArgument: it
  // conflicts with this node's progress.
  virtual absl::Status FormRing(const proto::FormRing& forming, absl::Time now,
                                CoreActions* actions) {
    return absl::OkStatus();
  }
  // Adds the state of the connections to each peer. REQUIRES: started.
  virtual void AddActivity(absl::Time now, proto::NodeActivity* activity) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
