#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/wire/frame.h"
#include "optimizer/weight_state.h"
#include "server/shard/chunk/consistency_policy.h"
#include "server/shard/chunk/node_copies.h"
#include "server/shard/chunk/quorum_clock.h"
#include "server/shard/sum/accumulator.h"

namespace strata::server {

// What all chunks of a job share; nodes are indices in order of their first rank.
struct ChunkRules {
  ConsistencyPolicy policy;
  kernels::UpdateRule update;
  std::vector<uint32_t> ranks_of_node;
  uint32_t ranks = 0;
  uint32_t batch_per_rank = 0;  // 0: known only from the pushes (programs)
  std::optional<DelayCompensation> compensation;
  bool pushes_changes = false;  // of nodes' weights, over local steps, in place of gradients
  bool is_elastic = false;      // pushes are nodes' weights, which draw those here to them
  proto::Addition::Order order = proto::Addition::TREE;
  wire::Codec push_codec = wire::Codec::kNone;  // of sums that are not empty
  bool takes_sparse = false;                    // sums may be sparse besides
  AnswerRules answers;
};

// A node's sum for one chunk and clock.
struct Push {
  size_t node = 0;
  uint32_t incarnation = 0;
  uint64_t clock = 0;
  uint64_t base_version = 0;
  uint32_t samples = 0;
  uint64_t checksum = 0;  // 0: none is known, as of payloads that came by reference
  wire::Codec codec = wire::Codec::kNone;
  Bytes sum;           // encoded; empty: adds nothing
  absl::Time came_at;  // a quorum's grace counts from it
};

// An answer that is due now: to the push of `clock`, or to CUT(clock). ERROR: a push of `clock`
// that was received turned out not to be finite, and counts as not received.
struct DueAnswer {
  wire::Op op = wire::Op::kAnswer;
  size_t node = 0;
  uint64_t clock = 0;
  uint32_t staleness = 0;
  bool again = false;  // the push has been answered before
};

inline constexpr char kNotFiniteText[] = "NaN or infinity";

struct WeightVersion {
  uint64_t version = 0;
  Bytes weights;
};

struct PushResult {
  wire::ErrorCode error = wire::ErrorCode::kNone;
  std::string reason;      // where there is an error
  bool duplicate = false;  // seen before, not applied again
};

// One chunk: watermark per node, the sums of incomplete clocks, weights, and who waits for an
// answer. The weights and the watermark change together, so each push is applied exactly once.
//
// A node has at most one unanswered push per chunk (pipeline depth 0): at any time at most
// open_clocks_max() clocks are incomplete.
//
// With a quorum of K nodes the chunk has one open clock, whose number is the weights' version. A
// push that was computed for it (base_version) waits in it; one of an earlier clock joins it too
// and is answered at once. It closes when K nodes wait, or all that have not retired, if they are
// fewer, and then the grace is over or each of those has come. Nobody else may wait: chunks have
// different quorums, and each node could wait for one of the others. So a process that replaces
// another one, whose push waits, does not.
//
// Threads: one.
class ChunkState {
 public:
  // All of it outlives this; `scratch` is the thread's.
  ChunkState(const kernels::Kernels& kernels, BufferPool& pool, kernels::EncoderScratch* scratch,
             const ChunkRules& rules, uint32_t elements, std::vector<OptimizerRun> runs);

  // The first weights, finite. REQUIRES: !weights().seeded(), `elements` fp32.
  void Seed(const Bytes& weights, uint64_t checksum);

  kernels::WeightState& weights() { return weights_; }
  const kernels::WeightState& weights() const { return weights_; }
  const ChunkRules& rules() const { return rules_; }
  NodeCopies& copies() { return copies_; }

  // REQUIRES: weights().seeded(). Appends the answers that are due now, of this node and of others,
  // also where the push itself is refused.
  PushResult OnPush(Push push, std::vector<DueAnswer>* due);
  // The node pushes no more: it holds nobody up.
  void OnRetire(size_t node, absl::Time now, std::vector<DueAnswer>* due);
  // When OnTime is due: the grace of a clock with a quorum; InfiniteFuture: never.
  absl::Time deadline() const { return closes_at_; }
  void OnTime(absl::Time now, std::vector<DueAnswer>* due);
  // Answered once every node has retired.
  void OnCut(size_t node, uint64_t clock, std::vector<DueAnswer>* due);

  // What an answer to the node is to hold: the newest weights. With delay compensation or elastic
  // averaging, for one that asks again, those that it was given: it computes with no others.
  WeightVersion WeightsFor(const DueAnswer& answer) const;
  bool keeps_bases() const { return rules_.compensation.has_value() || rules_.is_elastic; }

  // Pushes received from a node, contiguous from clock 0.
  uint64_t Received(size_t node) const { return nodes_[node].received; }
  // The node's last push waits for its answer.
  bool IsWaiting(size_t node) const { return nodes_[node].waiting; }
  bool IsRetired(size_t node) const { return nodes_[node].retired; }
  // Least number of pushes received from any node that has not retired; where all have, the most.
  uint64_t MinClock() const;
  // Gradient buffers held for incomplete clocks.
  size_t held() const;
  // Of weights, optimizer state, held gradients and the nodes' copies.
  size_t bytes() const;

 private:
  struct NodeProgress {
    uint64_t received = 0;
    bool waiting = false;  // the last push is not answered
    bool retired = false;
    // Of the last push:
    uint32_t incarnation = 0;
    uint64_t checksum = 0;
    uint32_t samples = 0;
    uint32_t versions_behind = 0;
    bool held = false;  // with a quorum: until the open clock closes
    // With delay compensation or elastic averaging: of its last answer.
    WeightVersion base;
    bool cut_waiting = false;
    uint64_t cut_clock = 0;
  };
  struct OpenClock {
    std::unique_ptr<Accumulator> sum;
    uint64_t samples = 0;
  };

  PushResult OnDuplicate(const Push& push, std::vector<DueAnswer>* due);
  PushResult Check(const Push& push) const;
  // Decodes later. Where nobody is answered before a clock is complete, fp32 is checked when it is
  // added. Errors: MALFORMED, or of fp32 NOT_FINITE.
  PushResult CheckSum(const Push& push, Addend* addend) const;
  PushResult AddToClock(const Push& push, Addend sum, std::vector<DueAnswer>* due);
  // What was received of these nodes at `clock` counts no more.
  void Withdraw(uint64_t clock, const std::vector<size_t>& nodes, std::vector<DueAnswer>* due);
  void ApplyOnArrival(const Push& push, const Addend& sum);
  // e = a (x - c), c += e: c are the weights here, x the node's.
  void Meet(const Push& push);
  // The mean gradient of the push, corrected.
  Bytes Compensated(const Push& push, const Bytes& sum);
  void ApplyCompleteClocks(std::vector<DueAnswer>* due);
  void JoinOpenClock(const Push& push, Addend sum);
  // With a quorum.
  void CloseIfOver(absl::Time now);
  void ApplyClock(const Bytes& sum, uint64_t samples);
  void CollectDue(std::vector<DueAnswer>* due);
  DueAnswer AnswerTo(size_t node) const;
  // MinClock, infinity where all nodes have retired.
  uint64_t Gate() const;

  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  const ChunkRules& rules_;
  kernels::WeightState weights_;
  NodeCopies copies_;
  std::shared_ptr<float> mean_square_;  // of adaptive compensation
  std::vector<NodeProgress> nodes_;
  std::map<uint64_t, OpenClock> open_;  // per clock
  // With a quorum, in place of open_.
  std::unique_ptr<QuorumClock> quorum_;
  absl::Time closes_at_ = absl::InfiniteFuture();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_
