#ifndef STRATA_COMMON_JOB_VIEWS_H_
#define STRATA_COMMON_JOB_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/processes.pb.h"
#include "proto/record.pb.h"

namespace strata {

// The nodes that participate in a job at each clock, which in such jobs is the number of the step:
// the nodes of its view and the changes decided since. Nodes keep their places and ranks their
// numbers when others join or leave.
//
// Threads: one.
class Views {
 public:
  // A job without nodes.
  Views() = default;
  // Errors: InvalidArgument naming the change, and the conflict.
  static absl::StatusOr<Views> Of(const proto::JobRecord& record);

  // Adds a change that was decided, or only the number of one that was given up. A known one is
  // fine. Errors, after which nothing has changed: InvalidArgument naming the change.
  absl::Status Add(const proto::ViewChange& change);

  // The newest change's number.
  uint32_t number() const { return number_; }
  // All of them, in order.
  const std::vector<proto::ViewChange>& changes() const { return changes_; }
  // The clock at which the job begins: changes up to it are past.
  uint64_t first_clock() const { return first_clock_; }
  // The clock of the newest change; 0: there was none.
  uint64_t newest_clock() const { return stretches_.empty() ? 0 : stretches_.back().from; }

  // The number of the newest change in effect at the clock.
  uint32_t NumberAt(uint64_t clock) const { return At(clock).number; }
  bool Has(NodeId node, uint64_t clock) const;
  // Returns whether the job has a place for the node that is vacant at `clock`.
  bool Lacks(NodeId node, uint64_t clock) const {
    return PlaceOf(node.value()).has_value() && !Has(node, clock);
  }
  // Returns whether the node participates at any clock from first_clock on.
  bool HasEver(NodeId node) const;
  // In order of their first ranks.
  std::vector<NodeId> NodesAt(uint64_t clock) const;
  // Returns how many ranks make the step.
  uint32_t RanksAt(uint64_t clock) const { return At(clock).ranks; }
  // Returns the rank's number among those that make the step, from 0 to RanksAt - 1. None: it does
  // not make it.
  std::optional<uint32_t> IndexOf(RankId rank, uint64_t clock) const;
  // Returns how many steps all ranks together make before this clock.
  uint64_t RankStepsBefore(uint64_t clock) const;
  // Returns the samples in them, if each rank takes `batch` in each step.
  uint64_t SamplesBefore(uint64_t clock, uint64_t batch) const {
    return RankStepsBefore(clock) * batch;
  }

  // Returns the clock at which the node joined last, after first_clock; 0: it is there from the
  // start, or never joins.
  uint64_t JoinedAt(NodeId node) const;
  // Returns the first clock without the node, after which it does not come back. None: it stays, or
  // was never there.
  std::optional<uint64_t> LeavesAt(NodeId node) const;

 private:
  // The clocks between changes.
  struct Stretch {
    uint64_t from = 0;
    uint32_t number = 0;
    std::vector<bool> has;  // by place
    uint32_t ranks = 0;
    uint64_t rank_steps_before = 0;  // before `from`
  };

  const Stretch& At(uint64_t clock) const;
  std::optional<size_t> PlaceOf(uint32_t node) const;
  // Returns which nodes participate after the change.
  absl::StatusOr<std::vector<bool>> Apply(const proto::ViewChange& change) const;
  void Append(uint64_t from, uint32_t number, std::vector<bool> has);

  std::vector<proto::LogicalNode> nodes_;  // in order of their first ranks
  std::vector<Stretch> stretches_;         // in order; the first from 0 on
  std::vector<proto::ViewChange> changes_;
  uint32_t number_ = 0;
  uint64_t first_clock_ = 0;
};

// The progress of a node of an all-reduce that has stopped in order to continue without nodes that
// died (Job.on_loss).
struct StoppedRing {
  uint64_t clock = 0;    // steps that it has made
  bool is_over = false;  // it knows that all nodes have made all steps
};

// Returns the record of the job's all-reduce in the ring `forming`: only its nodes, and its number
// as the view's, which every HELLO contains. Errors: InvalidArgument: the record lacks one of the
// nodes, there are none, or `node` is not among them.
absl::StatusOr<proto::JobRecord> WithRing(const proto::JobRecord& record,
                                          const proto::FormRing& forming, NodeId node);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_VIEWS_H_
