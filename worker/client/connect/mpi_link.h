#ifndef STRATA_WORKER_CLIENT_CONNECT_MPI_LINK_H_
#define STRATA_WORKER_CLIENT_CONNECT_MPI_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/job/arena.h"
#include "common/job/optimizer.h"
#include "kernels/kernels.h"
#include "numerics/update.h"
#include "proto/processes.pb.h"
#include "worker/client/connect/collective.h"
#include "worker/client/rank_link.h"

namespace strata::mpi {

// How much of the exchange overlapped with the rank's computation.
struct Progress {
  uint64_t chunks = 0;            // that were summed
  uint64_t done_before_wait = 0;  // of these, done when the next forward first asked for their
                                  // weights
  double waiting_s = 0;           // for the others
};

// exchange: MPI: a chunk's gradients are all-reduced from its publication on, by MPI's non-blocking
// collective, and every rank applies the same update to weights of its own when it needs them. MPI
// makes progress only within calls to it, so each call of this class tests all pending sums.
//
// The order of addition is MPI's. Ranks compare their final weights.
//
// Threads: one.
class MpiLink final : public client::RankLink {
 public:
  // Handles the ranks' reports.
  struct Reporting {
    // Called once, in Start, with what the ranks train. Its error ends this rank's.
    std::function<absl::Status(const client::JobFacts&, const proto::Layout&)> begin;
    std::function<absl::Status()> move_on;  // called now and then
  };

  // The arguments outlive it. REQUIRES: job defaults filled in, job.ranks equal to the collective's
  // size. `first_step`: the step with which the job resumes, or 0.
  MpiLink(const proto::Job& job, uint64_t first_step, Collective* collective,
          const kernels::Kernels& kernels, Reporting reporting);

  void GoOnFrom(ReadImages read) override { read_ = std::move(read); }
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps) override;
  absl::StatusOr<client::ArenaView> Allocate(const proto::Layout& layout) override;
  absl::StatusOr<client::RunFacts> Start(const client::JobFacts& facts) override;
  absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) override;
  absl::Status AwaitWeights(ChunkId chunk, uint64_t step) override;
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) override;
  absl::Status Finish(uint64_t steps) override;
  absl::Status KeepWeights() override { return client::KeepForGood(std::move(weights_)); }
  proto::NodeCounters Counters() const override;

  const Progress& progress() const { return progress_; }

 private:
  // A chunk's pending sum, and the update that follows it.
  struct UnderWay {
    uint64_t sum = 0;
    numerics::Update update;
  };

  absl::Status ExpectSame(const char* what, uint64_t value);
  // Makes progress on pending sums.
  absl::Status Push();
  absl::Status Land(ChunkId chunk);
  absl::Status LandAll();

  const proto::Job job_;
  Collective* const collective_;
  const kernels::Kernels& kernels_;
  const Reporting reporting_;
  ReadImages read_;  // null: the job starts from its first step
  numerics::UpdateRule rule_;

  proto::Layout layout_;
  std::vector<float> weights_, gradients_, state0_, state1_;
  std::unique_ptr<ChunkMap> map_;
  std::vector<std::vector<OptimizerRun>> runs_;     // by chunk
  std::vector<std::optional<UnderWay>> under_way_;  // by chunk
  std::vector<ChunkId> order_;                      // pending chunks, oldest first
  client::RunFacts facts_;
  uint64_t samples_ = 0;       // of all ranks, including the current step
  uint64_t step_samples_ = 0;  // of all ranks
  uint64_t bytes_ = 0;         // of chunks that were handed to MPI
  Progress progress_;
};

}  // namespace strata::mpi

#endif  // STRATA_WORKER_CLIENT_CONNECT_MPI_LINK_H_
