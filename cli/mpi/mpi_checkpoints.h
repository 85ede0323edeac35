#ifndef STRATA_CLI_MPI_MPI_CHECKPOINTS_H_
#define STRATA_CLI_MPI_MPI_CHECKPOINTS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/store.h"
#include "proto/control.pb.h"
#include "server/coordinator/checkpoints/checkpoint_ledger.h"
#include "server/coordinator/checkpoints/checkpoint_work.h"
#include "worker/client/job_facts.h"
#include "worker/client/mpi/collective.h"

namespace strata::cli {

// What a job that mpirun has started begins with.
struct MpiStart {
  proto::JobRecord record;               // the same on all ranks
  std::optional<proto::JobRecord> from;  // on rank 0: of the job whose checkpoint it goes on from
};
// Rank 0 looks for the checkpoint that the job goes on from, if `resume` names a folder or bucket,
// and tells the others. What it passes over it says on stderr. Errors, on rank 0: those of
// FindCheckpoint and CheckGoesOn; on the others Cancelled.
absl::StatusOr<MpiStart> AgreeOnStart(const proto::Job& job, const std::string& resume,
                                      const StoreOpener& open, mpi::Collective* collective);

// Completes the checkpoints of such a job, on rank 0: what a coordinator does for the jobs of a
// cluster. What goes wrong with one is said on stderr, and training goes on.
//
// Threads: one; it has one of its own for the store.
class MpiCheckpoints {
 public:
  MpiCheckpoints(MpiStart start, StoreOpener open);
  ~MpiCheckpoints();  // what is being written is written to its end

  // What is trained is known. Errors: InvalidArgument: it is not what the checkpoint is of.
  absl::Status Begin(const client::JobFacts& facts, const proto::Layout& layout);
  // A rank's object is written, or is not.
  void OnPart(const proto::CheckpointPart& part);
  // Moves on what can be moved.
  void MoveOn();
  // The step whose checkpoint is under way.
  std::optional<uint64_t> writing_step() const {
    return status_.has_writing_step() ? std::optional(status_.writing_step()) : std::nullopt;
  }

 private:
  void KeepIfWhole();
  void Run();
  void TellProblem();

  proto::JobRecord record_;
  const std::optional<proto::JobRecord> from_;
  const StoreOpener open_;
  server::CheckpointLedger ledger_;
  proto::CheckpointStatus status_;
  std::string told_;  // the newest problem that was said

  absl::Mutex mutex_;
  std::deque<server::CheckpointToKeep> to_keep_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<uint64_t, absl::Status>> kept_ ABSL_GUARDED_BY(mutex_);  // by clock
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last; none: the job writes no checkpoints
};

}  // namespace strata::cli

#endif  // STRATA_CLI_MPI_MPI_CHECKPOINTS_H_
