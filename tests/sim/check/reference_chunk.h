#ifndef STRATA_TESTS_SIM_CHECK_REFERENCE_CHUNK_H_
#define STRATA_TESTS_SIM_CHECK_REFERENCE_CHUNK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/record.pb.h"
#include "tests/sim/check/reference_optimizer.h"

namespace strata::sim {

// Returns the sum of the gradients of a node's ranks, in order of rank: what a node pushes. The
// tree's lower levels. REQUIRES: at least one rank, all of one length.
std::vector<float> ReferenceNodeSum(absl::Span<const absl::Span<const float>> ranks);

// A node's push; `node` as the job's view numbers it.
struct ReferencePush {
  uint32_t node = 0;
  uint64_t clock = 0, base_version = 0;
  uint32_t samples = 0;
  float rate = 0;          // of its step, where the job's program says rates
  std::vector<float> sum;  // empty: the frame is EMPTY
  absl::Time at;           // matters where there is a quorum
};

// One chunk of one job, straight from the table "Modes" in docs/semantics.md, with plain loops: an
// independent model that says, bit for bit, which weights the shard that owns the chunk must have
// after each event, and which answers are due then. Shares no code with server/ and kernels/.
//
// Where the table leaves bits open it means: the sum of a clock follows the balanced tree in which
// the left part of k leaves has the largest power of two below k, leaves in order of the nodes'
// first ranks; what is not there adds nothing (not zero); an update in which no node has a sample
// counts as a version and changes nothing.
class ReferenceChunk {
 public:
  ReferenceChunk(const proto::JobRecord& record, ChunkId chunk, std::vector<float> first_weights);

  // An answer that is due now, to a node's push of `clock`, with the weights of now.
  struct Due {
    uint32_t node = 0;
    uint64_t clock = 0;
    uint32_t staleness = 0;
    uint64_t version = 0;
    bool operator==(const Due&) const = default;
  };

  // The first receipt of each (node, clock), in order of arrival. Returns what is due, by node.
  std::vector<Due> OnPush(ReferencePush push);
  std::vector<Due> OnRetire(uint32_t node, absl::Time now = absl::UnixEpoch());
  // Other nodes take part from this clock on. Who joins has pushed all clocks before, as it were;
  // who leaves does not push, and retires as any. REQUIRES: no node has pushed it.
  void OnChange(const proto::ViewChange& change);
  // Its newest push, again from a process that has replaced the one before.
  std::vector<Due> OnReplay(uint32_t node);
  // Its pushes from `clock` on were never received. REQUIRES: they wait for their clock to
  // complete.
  void TakeBack(uint32_t node, uint64_t clock);
  // It is that late, and nothing else has happened.
  std::vector<Due> OnTime(absl::Time now);

  // What an answer to a push of the node holds, also when it asks again.
  const std::vector<float>& WeightsFor(uint32_t node);
  uint64_t VersionFor(uint32_t node);

  bool compensates() const { return consistency_.async().has_delay_compensation(); }
  const std::vector<float>& weights() const { return weights_; }
  uint64_t version() const { return version_; }
  // Least number of pushes of any node that has not retired; where all have, the most of any.
  uint64_t min_clock() const;
  // Pushes of a node that were received.
  uint64_t received(uint32_t node) const;
  // The first event that no shard may accept ("node 1 pushed clock 3, expected 2"); empty: none.
  const std::string& violation() const { return violation_; }
  // True if a retried request gets the same answer.
  bool keeps_bases() const { return compensates() || is_elastic(); }

 private:
  struct Node {
    uint32_t id = 0;
    uint32_t ranks = 0;
    uint64_t received = 0;
    std::deque<ReferencePush> open;  // received and not applied, by clock
    uint64_t versions_behind = 0;    // the last push
    // What its last answer held, with delay compensation or elastic averaging.
    std::vector<float> base;
    uint64_t base_version = 0;
    bool answered = true;  // the last push
    bool retired = false;
    // Its pushes in the open clock that had missed the one before, with a quorum. `open` waits.
    std::vector<ReferencePush> late;
    bool held = false;  // its last push, for the open clock to close
  };

  Node* Find(uint32_t id);
  void Violate(const std::string& what);
  bool Check(const Node& node, const ReferencePush& push);
  // True if every node that has not retired has pushed at least so often.
  bool AllHavePushed(uint64_t times) const;
  void ApplyClocks();
  // True if the open clock of a quorum is over, and what is done then.
  bool IsOver(absl::Time now);
  void CloseClock(absl::Time now);
  bool is_elastic() const { return consistency_.async().has_elastic(); }
  bool has_quorum() const { return consistency_.lazy().has_quorum(); }
  void ApplyPush(const Node& node, const ReferencePush& push);
  // Its mean gradient, corrected.
  std::vector<float> Compensate(const Node& node, const ReferencePush& push);
  // Of those that take part in a clock.
  uint32_t RanksAt(uint64_t clock) const;
  uint32_t StalenessOf(const Node& node) const;
  std::vector<Due> CollectDue();

  const proto::Consistency consistency_;
  const uint32_t batch_per_rank_;          // 0: not known
  std::map<uint64_t, uint32_t> ranks_at_;  // from this clock on
  std::vector<Node> nodes_;                // in order of first ranks
  ReferenceOptimizer optimizer_;
  std::vector<float> weights_;
  std::vector<float> mean_square_;  // of adaptive compensation
  uint64_t version_ = 0;
  uint64_t applied_clocks_ = 0;                    // where clocks are applied
  absl::Time quorum_at_ = absl::InfiniteFuture();  // when the open clock got it
  std::string violation_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_REFERENCE_CHUNK_H_
