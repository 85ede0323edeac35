#ifndef STRATA_WORKER_CLIENT_NCCL_ALONE_LINK_H_
#define STRATA_WORKER_CLIENT_NCCL_ALONE_LINK_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/client/link/rank_link.h"
#include "worker/client/nccl/device_steps.h"
#include "worker/contract/agent_channel.h"

namespace strata::nccl {

// exchange: NONE with device: GPU: what NcclLink does, by one rank for itself. The same kernels,
// rates and order of operations as client::LocalLink, so the same bits.
class AloneLink final : public client::RankLink {
 public:
  // Takes the device into use. Errors: worker::UseDevice's.
  static absl::StatusOr<std::unique_ptr<AloneLink>> Create(
      const proto::Launch& launch, std::shared_ptr<client::AgentChannel> agent);

  void AskInWaits(device::StillWanted still_wanted) override {
    still_wanted_ = std::move(still_wanted);
  }
  void GoOnFrom(ReadImages read) override { read_ = std::move(read); }
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps) override {
    return steps_->Cut(steps);
  }
  absl::StatusOr<client::ArenaView> Allocate(const proto::Layout& layout) override;
  absl::StatusOr<client::RunFacts> Start(const client::JobFacts& facts) override;
  void ComputeIn(device::Stream* stream) override { stream_ = stream; }
  absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) override;
  absl::Status AwaitWeights(ChunkId chunk, uint64_t step) override;
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) override;
  absl::Status Finish(uint64_t steps) override;
  absl::Status KeepWeights() override { return client::WeightsLieOnDevice(); }
  proto::NodeCounters Counters() const override { return {}; }

 private:
  AloneLink(const proto::Launch& launch, std::shared_ptr<device::Device> device,
            std::shared_ptr<client::AgentChannel> agent)
      : launch_(launch), device_(std::move(device)), agent_(std::move(agent)) {}

  const proto::Launch launch_;
  const std::shared_ptr<device::Device> device_;
  const std::shared_ptr<client::AgentChannel> agent_;
  device::StillWanted still_wanted_;
  ReadImages read_;  // null: the job begins anew
  std::unique_ptr<DeviceSteps> steps_;
  proto::Layout layout_;
  std::vector<float> weights_, gradients_;  // of the host, until Start
  device::Stream* stream_ = nullptr;
  std::unique_ptr<device::Event> ready_;  // in that stream
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_ALONE_LINK_H_
