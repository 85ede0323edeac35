#ifndef STRATA_WORKER_CLIENT_LOCAL_LINK_H_
#define STRATA_WORKER_CLIENT_LOCAL_LINK_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "numerics/update.h"
#include "worker/client/arena_image.h"
#include "worker/client/rank_link.h"
#include "worker/contract/agent_channel.h"

namespace strata::client {

// Registers a rank that is a whole job with the worker daemon, if there is one, and waits until it
// may begin. Blocks while `still_wanted`. Errors: AgentChannel's.
absl::Status AwaitTraining(const proto::Launch& launch, const proto::Layout& layout,
                           const JobFacts& facts, AgentChannel* agent,
                           const device::StillWanted& still_wanted);
// Reads the arena from which such a rank resumes, with `states` vectors of optimizer state. Null
// `read`: it starts from its first step, and there is none.
absl::StatusOr<std::optional<ArenaImage>> ReadArena(const RankLink::ReadImages& read,
                                                    const proto::Layout& layout, int states);
// Returns the job of a rank that applies the optimizer itself, completed by its program (errors:
// TakeProgramOptimizer's).
absl::StatusOr<proto::Job> CompleteJob(const proto::Job& job, const JobFacts& facts);
// Returns the run's facts for such a rank.
RunFacts FactsAlone(const proto::JobRecord& record, const proto::Layout& layout,
                    const JobFacts& facts);

// No exchange: the one rank keeps the optimizer's state and updates a chunk as soon as it is
// published. It uses the same kernels, rates and order of operations as a shard, so it gives the
// same bits as one rank through a cluster.
class LocalLink final : public RankLink {
 public:
  // REQUIRES: one rank. The job's defaults are filled in.
  LocalLink(const proto::Launch& launch, std::shared_ptr<AgentChannel> agent,
            const kernels::Kernels& kernels);

  void AskInWaits(device::StillWanted still_wanted) override {
    still_wanted_ = std::move(still_wanted);
  }
  void GoOnFrom(ReadImages read) override { read_ = std::move(read); }
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps) override;
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override;
  absl::StatusOr<RunFacts> Start(const JobFacts& facts) override;
  absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) override;
  absl::Status AwaitWeights(ChunkId chunk, uint64_t step) override;
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) override;
  absl::Status Finish(uint64_t steps) override;
  absl::Status KeepWeights() override { return KeepForGood(std::move(weights_)); }
  proto::NodeCounters Counters() const override { return {}; }

 private:
  absl::Status Update(ChunkId chunk, uint64_t step);

  const proto::Launch launch_;
  const std::shared_ptr<AgentChannel> agent_;
  const kernels::Kernels& kernels_;
  numerics::UpdateRule rule_;
  device::StillWanted still_wanted_;
  ReadImages read_;  // null: the job starts from its first step

  proto::Layout layout_;
  std::vector<float> weights_, gradients_, state0_, state1_;
  std::unique_ptr<ChunkMap> map_;
  std::vector<std::vector<OptimizerRun>> runs_;  // by chunk
  RunFacts facts_;
  uint64_t samples_ = 0;  // including the current step
  uint32_t step_samples_ = 0;
  uint64_t empty_steps_ = 0;  // of this process: steps without samples
  float rate_ = 0;            // of the current step
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_LOCAL_LINK_H_
