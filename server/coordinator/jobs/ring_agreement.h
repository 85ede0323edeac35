#ifndef STRATA_SERVER_COORDINATOR_JOBS_RING_AGREEMENT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_RING_AGREEMENT_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/processes.pb.h"

namespace strata::server {

// An agreement of the nodes of an all-reduce on continuing without nodes that died (Job.on_loss).
// Each node is asked to stop and reports how many steps it has made; the step at which all continue
// follows from their answers. If more nodes die, all are asked again under another number. Pure.
//
// Threads: one.
class RingAgreement {
 public:
  // Above any clock that a job reaches, with room for later ones.
  static constexpr uint64_t kClockMax = uint64_t{1} << 62;

  bool is_asking() const { return number_ > 0; }
  // The number of the current question. REQUIRES: is_asking().
  uint32_t number() const { return number_; }

  // Asks `nodes`: those that are left and have not finished. Voids the previous question.
  // REQUIRES: number > 0, and there are nodes.
  void Ask(uint32_t number, const std::set<uint32_t>& nodes, absl::Time now);
  // Asks a node again that may have missed the question; its time to answer starts over.
  void AskAgain(uint32_t node, absl::Time now);
  // A node has stopped. Ignores nodes that were not asked, other numbers, clocks past kClockMax and
  // answers that contradict an earlier one. Errors: FailedPrecondition with why it cannot continue.
  absl::Status OnStopped(const proto::RingStopped& stopped);
  // The node has ended its part of the job, which happens once all nodes have made all steps.
  void OnFinished(uint32_t node);
  // The nodes that have not answered.
  std::vector<uint32_t> Unanswered() const;
  // The unanswered nodes that were asked before `asked`.
  std::vector<uint32_t> UnansweredSince(absl::Time asked) const;
  // Returns whether all have answered. REQUIRES: is_asking().
  bool is_agreed() const { return Unanswered().empty(); }

  // Returns how all continue, and the clock at which ranks learn that nodes have left; it comes
  // after that of the previous change. The caller fills in the job and the nodes that left.
  // REQUIRES: is_agreed(), and not all have finished. Errors: InvalidArgument naming nodes whose
  // clocks no all-reduce can have left them with.
  absl::StatusOr<proto::FormRing> Decide(uint64_t clock_before) const;

  // The ring was decided, or given up.
  void End() { *this = RingAgreement(); }
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  uint32_t number_ = 0;                           // 0: no question is open
  std::map<uint32_t, absl::Time> asked_;          // by node: time of the question
  std::map<uint32_t, proto::RingStopped> heard_;  // by node
  bool has_finished_ = false;                     // at least one node has
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_RING_AGREEMENT_H_
