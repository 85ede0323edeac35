#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/job/exchange/ring_forming.h"
#include "common/transport/endpoint_refusals.h"
#include "compression/checked_payload.h"
#include "proto/processes.pb.h"
#include "worker/exchange/core/node_cuts.h"

namespace strata::worker {

// What a node's sum of gradients counts for, and the step that it is of.
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
                                    const kernels::CheckedPayload& delta) = 0;
  // All of the chunk's weights after `clock` have been taken: once per (chunk, clock).
  virtual absl::Status Landed(ChunkId chunk, uint64_t clock) = 0;
  // The chunk's first weights, of another node, in place of this one's own.
  virtual absl::Status TakeFirstWeights(ChunkId chunk, const Bytes& weights) = 0;
  // Weights of the chunk once every node has finished.
  virtual absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) = 0;

  // Whether the node does this phase before Submit and notes it in the trace itself, so that a call
  // is no such phase: SUM of TakeSum, ENCODE of what is done with payloads.
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

// The upper level: how the sums of all nodes become the weights of the next step. A strategy; the
// aggregator knows no more than this.
//
// Errors of every call end the job; each names the peer, or the chunk and its clock.
//
// Threads: one. Nothing blocks but Poll.
class Exchange {
 public:
  enum class Phase { kSeeding, kTraining, kFinishing, kFinished };

  virtual ~Exchange() = default;

  // Begins to offer the first weights. Once, first.
  virtual absl::Status Start() = 0;
  // Every rank of the node has published the chunk for its next clock: one more than the chunk's
  // last one. The answer to the chunk's last push has been taken. Errors: FailedPrecondition, too
  // (not kTraining: a rank goes on after it has left).
  virtual absl::Status Submit(ChunkId chunk) = 0;
  // The node's ranks make no more than `clocks` steps. Once, after the last Submit.
  virtual absl::Status Finish(uint64_t clocks) = 0;

  // Moves on what can be moved, waiting up to `timeout` for something to happen, also at the
  // descriptor that it was created with.
  virtual absl::Status Poll(absl::Duration timeout) = 0;

  // What is unanswered is asked there; older news than what is known changes nothing. Exchanges
  // without shards ignore it.
  virtual absl::Status OnShardMoved(const ShardMove& move) { return absl::OkStatus(); }
  // The node leaves the job by plan before this clock: where its ranks make as many steps, Finish
  // waits for no other node, and brings no final weights. Before Finish.
  virtual void LeaveAt(uint64_t clock) {}
  // Stops exchanging with other nodes, until it is to form a ring with this number or a higher one,
  // and returns how far this node is; an older number than is known changes nothing. Errors, which
  // do not end the job here: FailedPrecondition, why it cannot go on without a node.
  virtual absl::StatusOr<StoppedRing> StopRing(uint32_t number) {
    return absl::FailedPreconditionError("the job does not go on without a node that is lost");
  }
  // Goes on among these nodes; old news changes nothing. Errors: InvalidArgument, it does not fit
  // what this node has made.
  virtual absl::Status FormRing(const proto::FormRing& forming) { return absl::OkStatus(); }

  virtual Phase phase() const = 0;
  // The clock that the node begins with: 0, but where the job goes on from a checkpoint.
  // REQUIRES: kTraining or later.
  virtual uint64_t first_clock() const { return 0; }
  // Whether sums are on their way of chunks that have landed all the same: double buffering.
  virtual bool goes_on() const { return false; }
  // Returns what the node is to write of checkpoints. Cuts with images count as held until LetGoOf.
  virtual NodeCuts TakeCuts() { return {}; }
  // The images of a cut of the kind are no longer in memory.
  virtual void LetGoOf(NodeCuts::Kind kind, uint64_t clock) {}
  virtual const ExchangeCounters& counters() const = 0;
  // Bytes of the exchange's own weights, optimizer state and buffers.
  virtual size_t memory_bytes() const = 0;
  // What its endpoint was sent and has not taken, since the beginning.
  virtual transport::Refusals refusals() const { return {}; }
  // Adds how the exchange stands with each peer.
  virtual void AddActivity(proto::NodeActivity* activity) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_
