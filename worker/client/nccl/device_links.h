#ifndef STRATA_WORKER_CLIENT_NCCL_DEVICE_LINKS_H_
#define STRATA_WORKER_CLIENT_NCCL_DEVICE_LINKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "worker/client/aggregator_link.h"
#include "worker/client/nccl/device_steps.h"
#include "worker/client/nccl/ring_stops.h"
#include "worker/client/rank_link.h"
#include "worker/contract/agent_channel.h"

namespace strata::nccl {

// exchange: NCCL: ranks sum each chunk's gradients on their devices from its publication on, and
// each applies the optimizer there to weights of its own. The node's aggregator connects them: it
// compares what they train, distributes rank 0's id, starts them, and tells waiting ranks when the
// job is stopped or a peer is gone; it moves no data.
//
// With on_loss: DROP the remaining ranks go from one communicator to the next as others die. A call
// of the program meanwhile completes once all ranks have met again; AskInWaits is not called until
// then.
//
// The order of addition is the library's. Ranks compare their first weights, unless they take rank
// 0's, and their final ones; and in each step the program's rate and samples.
class NcclLink final : public client::RankLink {
 public:
  // Opens the rank's device and waits for the aggregator to listen. Errors: those of
  // worker::UseDevice and client::AggregatorLink::Connect.
  static absl::StatusOr<std::unique_ptr<NcclLink>> Connect(const proto::Launch& launch);

  void AskInWaits(device::StillWanted still_wanted) override {
    aggregator_->AskInWaits(std::move(still_wanted));
  }
  void GoOnFrom(ReadImages read) override { read_ = std::move(read); }
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps) override {
    return steps_->Cut(steps);
  }
  absl::StatusOr<client::ArenaView> Allocate(const proto::Layout& layout) override;
  absl::StatusOr<client::RunFacts> Start(const client::JobFacts& facts) override;
  void ComputeIn(device::Stream* stream) override;
  absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) override;
  absl::Status AwaitWeights(ChunkId chunk, uint64_t step) override;
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) override;
  absl::StatusOr<bool> LearnViews(uint64_t step, bool waits, Views* views) override {
    return aggregator_->LearnViews(step, waits, views);
  }
  absl::Status Finish(uint64_t steps) override;
  std::vector<proto::ViewChange> TakeLateChanges() override {
    return aggregator_->TakeLateChanges();
  }
  absl::Status KeepWeights() override { return client::WeightsLieOnDevice(); }
  void SendTrace(client::AgentChannel* agent, bool all) override;
  proto::NodeCounters Counters() const override;

 private:
  NcclLink(const proto::Launch& launch, std::shared_ptr<device::Device> device,
           std::unique_ptr<client::AggregatorLink> aggregator);

  // Connects to the other ranks with the first weights.
  absl::Status Begin(const client::JobFacts& facts, const client::RunFacts& run);
  // Loads what the job resumes from, if it does.
  absl::Status Restore();
  // Checks that all ranks have the same weights on their devices. Errors: InvalidArgument.
  absl::Status ExpectSameWeights(const char* which);

  // Ok while waiting for other ranks of the current ring makes sense. Threads: any.
  absl::Status StillWanted();
  // Reports where the rank has stopped.
  void Answer(const RingStops::Answer& answer);
  // Repeats the call in the next ring, as long as the current one gets stopped.
  absl::Status InRings(absl::FunctionRef<absl::Status()> call);
  absl::Status GoOn();
  absl::Status FormRing(const proto::RankRing& ring);
  // A peer's death may look like an error of the library: returns Aborted if the ring is stopped
  // because of it.
  absl::Status OrStopped(absl::Status error);
  // Checks that the final weights are the same on all ranks; after that no other rank is needed.
  absl::Status EndTogether();

  const proto::Launch launch_;
  const std::shared_ptr<device::Device> device_;
  const std::unique_ptr<client::AggregatorLink> aggregator_;
  ReadImages read_;                 // null: the job starts from its first step
  std::optional<RingStops> stops_;  // with on_loss: DROP
  bool is_over_ = false;            // likewise: all ranks are known to have made all steps
  std::unique_ptr<DeviceSteps> steps_;
  proto::Layout layout_;
  client::ArenaView view_;  // on the host, until Start
  device::Stream* stream_ = nullptr;
  std::unique_ptr<device::Event> ready_;  // recorded in that stream
  uint64_t landed_ = 0;                   // the step whose weights are shown as landed
};

// exchange: NONE with device: GPU: like NcclLink, for a single rank. It uses the same kernels,
// rates and order of operations as client::LocalLink, so it gives the same bits.
class AloneLink final : public client::RankLink {
 public:
  // Opens the device. Errors: those of worker::UseDevice.
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
  ReadImages read_;  // null: the job starts from its first step
  std::unique_ptr<DeviceSteps> steps_;
  proto::Layout layout_;
  std::vector<float> weights_, gradients_;  // on the host, until Start
  device::Stream* stream_ = nullptr;
  std::unique_ptr<device::Event> ready_;  // recorded in that stream
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_DEVICE_LINKS_H_
