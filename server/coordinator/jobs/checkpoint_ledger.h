#ifndef STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_LEDGER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::server {

// Tracks which objects of a job's checkpoints are in the store. A checkpoint is whole once each
// shard that holds chunks or rows, each node and each rank that keeps state has written its part;
// its manifest must be written then, and the checkpoint is complete once that is there. Keeps the
// status that users see up to date. A pure state machine.
class CheckpointLedger {
 public:
  CheckpointLedger() = default;  // for a job without checkpoints
  // REQUIRES: the record is complete.
  explicit CheckpointLedger(const proto::JobRecord& record);

  // Takes over from a coordinator that showed this status of the same attempt: checkpoints that it
  // completed stay complete although daemons report their parts again. REQUIRES: no part has been
  // taken.
  void TakeOver(const proto::CheckpointStatus& status);

  // A part was written, or could not be. Repeated reports change nothing. `who` wrote it, in words:
  // "server s1".
  void OnPart(const std::string& who, const proto::CheckpointPart& part,
              proto::CheckpointStatus* status);

  struct Whole {
    uint64_t clock = 0;
    // The objects of shards, nodes, ranks and rows. Each kind is in the order of its numbers.
    std::vector<proto::CheckpointObject> objects;
  };
  // Returns the next checkpoint whose manifest must be written; none while another manifest is
  // being written.
  std::optional<Whole> TakeWhole();
  bool is_keeping() const { return keeping_.has_value(); }
  // The manifest of the checkpoint that TakeWhole returned was written, or could not be.
  // OutOfRange, as of KeepCheckpoint: a later checkpoint is complete, so this one is not needed.
  void OnKept(uint64_t clock, const absl::Status& kept, absl::Time now,
              proto::CheckpointStatus* status);

  // The parts of the checkpoint at that clock will come: it is shown as being written.
  void Expect(uint64_t clock, proto::CheckpointStatus* status);
  // No more parts will come: unfinished checkpoints stay incomplete.
  void Close(proto::CheckpointStatus* status);

 private:
  using Part = std::pair<proto::CheckpointPart::OfCase, uint32_t>;  // the kind of part, and its
                                                                    // number
  using Objects = std::map<Part, std::vector<proto::CheckpointObject>>;

  static Part PartOf(const proto::CheckpointPart& part);
  void GiveUp(uint64_t clock, const std::string& problem, proto::CheckpointStatus* status);
  void ShowWriting(proto::CheckpointStatus* status) const;

  std::set<Part> parts_;
  uint64_t steps_per_clock_ = 1;
  std::map<uint64_t, Objects> open_;  // by clock; not whole yet
  std::set<uint64_t> failed_;         // later parts of these are ignored
  std::optional<Whole> keeping_;
  uint64_t newest_ = 0;  // complete, or given up while a later one is complete
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_LEDGER_H_
