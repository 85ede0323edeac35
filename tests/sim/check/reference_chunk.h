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

// Returns what a node pushes: the sum of its ranks' gradients in order of rank, which is the lower
// levels of the tree. REQUIRES: at least one rank; all of one length.
std::vector<float> ReferenceNodeSum(absl::Span<const absl::Span<const float>> ranks);

// A node's push; `node` as the job's view numbers it.
struct ReferencePush {
  uint32_t node = 0;
  uint64_t clock = 0, base_version = 0;
  uint32_t samples = 0;
  float rate = 0;          // rate of its step, if the job's program reports rates
  std::vector<float> sum;  // empty: the frame is EMPTY
  absl::Time at;           // used only with a quorum
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

  // An answer that is due now to a node's push of `clock`, with the current weights.
  struct Due {
    uint32_t node = 0;
    uint64_t clock = 0;
    uint32_t staleness = 0;
    uint64_t version = 0;
    bool operator==(const Due&) const = default;
  };

  // The first receipt of each (node, clock), in order of arrival. Returns the answers that are due,
  // by node.
  std::vector<Due> OnPush(ReferencePush push);
  std::vector<Due> OnRetire(uint32_t node, absl::Time now = absl::UnixEpoch());
  // The set of nodes changes from this clock on. A joining node counts as having pushed all earlier
  // clocks; a leaving node stops pushing and retires like any other. REQUIRES: no node has pushed
  // this clock.
  void OnChange(const proto::ViewChange& change);
  // The node's newest push arrives again, from a process that replaced the one before.
  std::vector<Due> OnReplay(uint32_t node);
  // Forgets the node's pushes from `clock` on, as if never received. REQUIRES: they wait for their
  // clock to complete.
  void TakeBack(uint32_t node, uint64_t clock);
  // Time has passed and nothing else has happened.
  std::vector<Due> OnTime(absl::Time now);

  // Returns the content of an answer to a push of the node, also for a repeated request.
  const std::vector<float>& WeightsFor(uint32_t node);
  uint64_t VersionFor(uint32_t node);

  bool compensates() const { return consistency_.async().has_delay_compensation(); }
  const std::vector<float>& weights() const { return weights_; }
  uint64_t version() const { return version_; }
  // The smallest number of pushes of any node that has not retired; if all have, the largest of
  // any.
  uint64_t min_clock() const;
  // Number of pushes received from a node.
  uint64_t received(uint32_t node) const;
  // The first event that no shard may accept ("node 1 pushed clock 3, expected 2"); empty: none.
  const std::string& violation() const { return violation_; }
  // Returns true if a retried request gets the same answer.
  bool keeps_bases() const { return compensates() || is_elastic(); }

 private:
  struct Node {
    uint32_t id = 0;
    uint32_t ranks = 0;
    uint64_t received = 0;
    std::deque<ReferencePush> open;  // received and not applied, by clock
    uint64_t versions_behind = 0;    // the last push
    // Content of its last answer, with delay compensation or elastic averaging.
    std::vector<float> base;
    uint64_t base_version = 0;
    bool answered = true;  // the last push
    bool retired = false;
    // With a quorum: its pushes in the open clock after it had missed the one before. `open` waits.
    std::vector<ReferencePush> late;
    bool held = false;  // its last push waits for the open clock to close
  };

  Node* Find(uint32_t id);
  void Violate(const std::string& what);
  bool Check(const Node& node, const ReferencePush& push);
  // Returns true if every node that has not retired has pushed at least this often.
  bool AllHavePushed(uint64_t times) const;
  void ApplyClocks();
  // Returns true if the open clock of a quorum is over, and what is due then.
  bool IsOver(absl::Time now);
  void CloseClock(absl::Time now);
  bool is_elastic() const { return consistency_.async().has_elastic(); }
  bool has_quorum() const { return consistency_.lazy().has_quorum(); }
  void ApplyPush(const Node& node, const ReferencePush& push);
  // Returns its mean gradient, corrected for delay.
  std::vector<float> Compensate(const Node& node, const ReferencePush& push);
  // Number of ranks that take part in a clock.
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
  absl::Time quorum_at_ = absl::InfiniteFuture();  // when the open clock reached its quorum
  std::string violation_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_REFERENCE_CHUNK_H_
