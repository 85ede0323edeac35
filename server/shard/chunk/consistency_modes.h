#ifndef STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODES_H_
#define STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/job/views.h"
#include "common/os/memory_ledger.h"
#include "common/wire/frame.h"
#include "kernels/kernels.h"
#include "numerics/weight_state.h"
#include "proto/job.pb.h"
#include "server/shard/chunk/accumulator.h"
#include "server/shard/chunk/chunk_copy.h"
#include "server/shard/chunk/chunk_parts.h"

namespace strata::server {

// Parts of a job's memory formula (shard_budget.h) that several modes share.

// The sizes of a shard's part of a job.
struct ShardSize {
  uint64_t nodes = 0;
  uint64_t window = 1;
  uint64_t own_bytes = 0;    // of the job's weights
  uint64_t chunk_bytes = 0;  // of its largest chunk
};

// Adds the memory for the weights that each node was given last.
void AddGivenWeights(const ShardSize& size, MemoryFormula* need);

// Adds the memory for pushes that wait for other nodes', if a sum over all holds at most `leaves`
// of them at a time: (nodes x window - saved) chunks, but at most `leaves` vectors.
void AddWaitingPushes(const ShardSize& size, uint64_t leaves, uint64_t saved, MemoryFormula* need);

// A node's sum for one chunk and clock.
struct Push {
  size_t node = 0;  // its index, in order of the nodes' first ranks
  uint32_t incarnation = 0;
  uint64_t clock = 0;
  uint64_t base_version = 0;
  uint32_t samples = 0;
  float rate = 0;         // of its step, if the job's program gives rates
  uint64_t checksum = 0;  // 0: unknown, because it came by reference or sealed
  wire::Codec codec = wire::Codec::kNone;
  Bytes sum;           // encoded; empty: adds nothing
  absl::Time came_at;  // start of a quorum's grace
};

inline Push PushOf(const wire::Frame& frame, size_t node, absl::Time came_at) {
  const wire::Header& header = frame.header;
  return {.node = node,
          .incarnation = header.incarnation,
          .clock = header.clock,
          .base_version = header.base_version,
          .samples = header.sample_count,
          .rate = header.rate,
          .checksum = header.payload_checksum,
          .codec = header.codec,
          .sum = frame.payload,
          .came_at = came_at};
}

// The outcome of a push.
struct PushResult {
  wire::ErrorCode error = wire::ErrorCode::kNone;
  std::string reason;      // set with an error
  bool duplicate = false;  // received before, not applied again
  bool unchanged = false;  // and nothing else has changed, either
};

inline PushResult RefusePush(wire::ErrorCode error, std::string reason) {
  return {.error = error, .reason = std::move(reason)};
}

// Checks a node's push as far as its header tells, against what is known of the node: its clock
// comes next, the node has not retired, and its base is a version that exists.
PushResult CheckProgress(const NodeProgress& node, uint64_t clock, uint64_t base_version,
                         uint64_t version);

inline PushResult RefuseOtherContent() {
  return RefusePush(wire::ErrorCode::kConflict, "other content than before");
}

// An answer that is due now: to the push of `clock`, or to CUT(clock). ERROR: a push of `clock`
// turned out not to be finite, and counts as not received.
struct DueAnswer {
  wire::Op op = wire::Op::kAnswer;
  size_t node = 0;
  uint64_t clock = 0;
  uint32_t staleness = 0;
  bool again = false;  // the push has been answered before
};

inline constexpr char kNotFiniteText[] = "NaN or infinity";

// The parts of one chunk that a mode works on.
struct ChunkParts {
  const kernels::Kernels& kernels;
  BufferPool& pool;
  numerics::WeightState& weights;
  ChunkNodes& nodes;
  ChunkCuts& cuts;
  ClockSums& sums;
};

// Defines how one chunk's pushes are applied, and when they are answered. ChunkState finds that a
// push is new and valid, calls Check, counts the push in ChunkNodes, calls Take, and then asks for
// each waiting node whether it may be answered. A mode that sums the pushes of a clock reports each
// applied clock to ChunkCuts, and to ClockSums if all nodes are answered with the same versions.
//
// Threads: one.
class ChunkMode {
 public:
  virtual ~ChunkMode() = default;

  // The chunk got its first weights, or those of an image.
  virtual void OnSeed() {}
  // Returns the mode's memory of past gradients, for images; empty: none. It is copied.
  virtual Bytes MeanSquare() const { return Bytes(); }
  // Restores that of an image. REQUIRES: after OnSeed; as long as the chunk, or empty.
  virtual void RestoreMeanSquare(const Bytes& mean_square) {}
  // Adds the mode's state of this chunk, see ChunkCopy.
  virtual void AddTo(ChunkCopy* copy) {}
  // Continues from another copy's state. REQUIRES: after OnSeed, with the nodes' state of that
  // copy.
  virtual void Restore(ChunkCopyReader* reader) {}
  // Returns the error for a push that does not match what its node was given.
  virtual PushResult Check(const Push& push) const { return {}; }
  // Takes a push, and applies it now or when others have come. Appends ERRORs for other nodes'
  // pushes that turn out not to be finite, and returns that of this push.
  virtual PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) = 0;
  // A node has retired; ChunkNodes shows it.
  virtual void OnRetire(absl::Time now, std::vector<DueAnswer>* due) {}

  // Applies a whole clock that another copy of the chunk has summed. REQUIRES: the mode answers all
  // nodes alike, and no push waits here.
  virtual void Follow(const ClockSum& clock) {}

  // Returns whether the node's last push may be answered; `gate` is ChunkNodes::Gate().
  virtual bool MayAnswer(size_t node, uint64_t gate) const = 0;
  // The staleness that the answer reports.
  virtual uint32_t StalenessOf(size_t node, uint64_t gate) const = 0;
  // The node is answered with the newest weights.
  virtual void OnAnswered(size_t node) {}
  // Returns the weights for a repeated request: those of the node's last answer, because it
  // computes only with these. Null: the newest.
  virtual const WeightVersion* GivenTo(size_t node) const { return nullptr; }
  // A new process repeats its node's last push. Returns true if the previous process was kept
  // waiting for it and the node no longer is.
  virtual bool StopWaiting(size_t node) { return false; }

  // When OnTime is due; InfiniteFuture: never.
  virtual absl::Time deadline() const { return absl::InfiniteFuture(); }
  virtual void OnTime(absl::Time now) {}

  // Gradient buffers held for incomplete clocks.
  virtual size_t held() const { return 0; }
  // Bytes that the mode holds for this chunk.
  virtual size_t bytes() const { return 0; }
};

// A consistency mode with a job's settings; it makes the ChunkMode of each chunk.
//
// Threads: one.
class ConsistencyMode {
 public:
  virtual ~ConsistencyMode() = default;

  // Returns whether all nodes are answered with the same versions: those after each clock.
  virtual bool answers_alike() const { return false; }
  // Returns whether each push is applied on arrival, and not together with other nodes'.
  virtual bool applies_on_arrival() const { return false; }
  // Adds the memory for weights that are kept per node, and for the related state.
  virtual void AddNodeVersions(const ShardSize& size, MemoryFormula* need) const {}
  // Adds the memory for pushes that wait for others.
  virtual void AddHeldSums(const ShardSize& size, MemoryFormula* need) const {}
  // `chunk` outlives the result.
  virtual std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const = 0;
};

// Applies the mean gradient of a clock, or only counts the version if no node had a sample. `rate`:
// the nodes' rate for the clock, if they give one.
void ApplyClock(const ChunkParts& chunk, const Bytes& sum, uint64_t samples, double rate);

// The ranks of a job's nodes, in order of their first rank.
struct NodeRanks {
  // Returns how many ranks participate in a clock.
  uint32_t At(uint64_t clock) const { return views ? views->RanksAt(clock) : total; }
  // Returns which part of a whole clock's samples a node's push has. `batch_per_rank`: 0: it is
  // known only from the push.
  double ShareOfClock(size_t node, uint64_t clock, uint32_t samples,
                      uint32_t batch_per_rank) const {
    const double rank_samples =
        batch_per_rank > 0 ? batch_per_rank : static_cast<double>(samples) / of_node[node];
    return samples / (rank_samples * At(clock));
  }

  std::vector<uint32_t> of_node;
  uint32_t total = 0;
  std::shared_ptr<const Views> views;  // null: all participate in every clock
};

// Returns the mode of a job whose defaults are filled in. Errors: InvalidArgument, naming the
// field, if a setting does not fit the number of nodes.
absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateConsistencyMode(const proto::Job& job,
                                                                       const NodeRanks& ranks);

// The modes, each in a file of its own. Only CreateConsistencyMode chooses among them.

// sync, lazy(s): the nodes' sum, once per clock; answered within s clocks of the slowest node. So
// sync is lazy with s = 0, bit for bit.
std::unique_ptr<ConsistencyMode> CreateClockedMode(const proto::Job& job, const NodeRanks& ranks);
// lazy(s, on arrival): each push on arrival; answered within s clocks of the slowest node.
std::unique_ptr<ConsistencyMode> CreateGatedArrivalMode(const proto::Job& job,
                                                        const NodeRanks& ranks);
// lazy(0, quorum): the nodes' sum, once per clock, which closes when enough nodes wait in it.
absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateQuorumMode(const proto::Job& job,
                                                                  const NodeRanks& ranks);
// async: each push on arrival, damped or compensated for its delay; answered at once.
std::unique_ptr<ConsistencyMode> CreateAsyncMode(const proto::Job& job, const NodeRanks& ranks);
// async(elastic): each push pulls the weights here towards the node's; answered at once.
absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateElasticMode(const proto::Job& job,
                                                                   const NodeRanks& ranks);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODES_H_
