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

// Knows of one job which objects of which checkpoint are in the store. A checkpoint is whole once
// each shard that holds chunks, each node and each rank that keep state have written their parts of
// it; then its manifest must be written, and it is complete once that is there. Keeps the status
// that users see in step. A pure state machine.
class CheckpointLedger {
 public:
  CheckpointLedger() = default;  // of a job that has none
  // REQUIRES: the record is complete.
  explicit CheckpointLedger(const proto::JobRecord& record);

  // Takes over from a coordinator that has shown this status of the same attempt: what it has
  // completed is, though daemons say its parts again. REQUIRES: no part has been taken.
  void TakeOver(const proto::CheckpointStatus& status);

  // A part is written, or could not be; the same again changes nothing. `who` did that, in words:
  // "server s1".
  void OnPart(const std::string& who, const proto::CheckpointPart& part,
              proto::CheckpointStatus* status);

  struct Whole {
    uint64_t clock = 0;
    std::vector<proto::CheckpointObject> objects;  // of shards, nodes, ranks, each by number
  };
  // Returns the next checkpoint whose manifest must be written; none while another one's is.
  std::optional<Whole> TakeWhole();
  bool is_keeping() const { return keeping_.has_value(); }
  // The manifest of the checkpoint that TakeWhole has returned is there, or could not be written;
  // OutOfRange, as of KeepCheckpoint: it is past, and none is needed.
  void OnKept(uint64_t clock, const absl::Status& kept, absl::Time now,
              proto::CheckpointStatus* status);

  // The parts of that clock's checkpoint will come: it is shown as one that is being written.
  void Expect(uint64_t clock, proto::CheckpointStatus* status);
  // No part comes any more: those that are not whole never will be.
  void Close(proto::CheckpointStatus* status);

 private:
  using Part = std::pair<proto::CheckpointPart::OfCase, uint32_t>;  // the kind, and which of it
  using Objects = std::map<Part, proto::CheckpointObject>;

  static Part PartOf(const proto::CheckpointPart& part);
  void GiveUp(uint64_t clock, const std::string& problem, proto::CheckpointStatus* status);
  void ShowWriting(proto::CheckpointStatus* status) const;

  std::set<Part> parts_;
  uint64_t steps_per_clock_ = 1;
  std::map<uint64_t, Objects> open_;  // by clock; not whole yet
  std::set<uint64_t> failed_;         // later parts of them are of no use
  std::optional<Whole> keeping_;
  uint64_t newest_ = 0;  // complete, or given up with a later one complete
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_LEDGER_H_
