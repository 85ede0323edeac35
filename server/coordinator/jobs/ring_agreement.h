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

// Nodes of an all-reduce that continue without those that have died (Job.on_loss): each is
// asked to stop, and says how many steps it has made; with which step all go on follows from their
// answers. Once more nodes die, all are asked again, with another number. Pure.
//
// Threads: one.
class RingAgreement {
 public:
  // No job comes to it; there are clocks after it all the same.
  static constexpr uint64_t kClockMax = uint64_t{1} << 62;

  bool is_asking() const { return number_ > 0; }
  // The number that nodes are asked about. REQUIRES: is_asking().
  uint32_t number() const { return number_; }

  // Asks `nodes`, those that are left and have not finished. What was asked before is void.
  // REQUIRES: number > 0, and there are nodes.
  void Ask(uint32_t number, const std::set<uint32_t>& nodes, absl::Time now);
  // The node may have missed the question, and has as much time to answer it as at first.
  void AskAgain(uint32_t node, absl::Time now);
  // A node has stopped. Others are not heard, nor is one that speaks of another number or of a
  // clock past kClockMax, or says something else than before. Errors: FailedPrecondition with why
  // it cannot continue.
  absl::Status OnStopped(const proto::RingStopped& stopped);
  // The node has ended its part of the job, as it does once all nodes have made all steps.
  void OnFinished(uint32_t node);
  // The nodes that have not answered.
  std::vector<uint32_t> Unanswered() const;
  // The nodes among them that were asked before this time.
  std::vector<uint32_t> UnansweredSince(absl::Time asked) const;
  // Returns whether all have answered. REQUIRES: is_asking().
  bool is_agreed() const { return Unanswered().empty(); }

  // Returns how all continue, and from which clock on ranks know that nodes have left, which comes
  // after that of the change before. Whose job it is and who has left is for the caller to fill in.
  // REQUIRES: is_agreed(), and not all have finished. Errors: InvalidArgument naming nodes whose
  // clocks no all-reduce can have left them with.
  absl::StatusOr<proto::FormRing> Decide(uint64_t clock_before) const;

  // It is decided, or given up.
  void End() { *this = RingAgreement(); }
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  uint32_t number_ = 0;                           // 0: nobody is asked
  std::map<uint32_t, absl::Time> asked_;          // by node: since when
  std::map<uint32_t, proto::RingStopped> heard_;  // by node
  bool has_finished_ = false;                     // a node has
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_RING_AGREEMENT_H_
