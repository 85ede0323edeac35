#include "worker/client/nccl/alone_link.h"

#include <utility>

#include "absl/memory/memory.h"
#include "worker/client/link/local_link.h"
#include "worker/client/nccl/device_client.h"
#include "worker/contract/launch_devices.h"

namespace strata::nccl {

absl::StatusOr<std::unique_ptr<AloneLink>> AloneLink::Create(
    const proto::Launch& launch, std::shared_ptr<client::AgentChannel> agent) {
  absl::StatusOr<std::shared_ptr<device::Device>> device =
      worker::UseDevice(launch, launch.local_rank());
  if (!device.ok()) return device.status();
  return absl::WrapUnique(new AloneLink(launch, *std::move(device), std::move(agent)));
}

absl::StatusOr<client::ArenaView> AloneLink::Allocate(const proto::Layout& layout) {
  if (absl::Status status = ValidateLayout(layout); !status.ok()) return status;
  layout_ = layout;
  weights_.assign(layout.elements(), 0.0f);
  gradients_.assign(layout.elements(), 0.0f);
  return client::ArenaView{absl::MakeSpan(weights_), absl::MakeSpan(gradients_)};
}

absl::StatusOr<client::RunFacts> AloneLink::Start(const client::JobFacts& facts) {
  const absl::StatusOr<proto::Job> job = client::CompleteJob(launch_.record().job(), facts);
  if (!job.ok()) return job.status();
  absl::StatusOr<std::unique_ptr<DeviceSteps>> steps = DeviceSteps::Create(
      device_, *job, layout_, [] { return absl::OkStatus(); }, facts.says_rates, still_wanted_);
  if (!steps.ok()) return steps.status();
  steps_ = *std::move(steps);
  absl::Status status = steps_->TakeWeightsFrom(weights_.data());
  if (status.ok()) {
    status = client::AwaitTraining(launch_, layout_, facts, agent_.get(), still_wanted_);
  }
  if (!status.ok()) return status;
  client::RunFacts run = client::FactsAlone(launch_.record(), layout_, facts);
  status = steps_->Begin(nullptr, 1, run.chunk_elements, run.samples_per_epoch);
  if (!status.ok()) return status;
  const auto image = client::ReadArena(read_, layout_, steps_->states());
  status = image.status();
  if (status.ok() && *image) status = steps_->TakeFrom(**image);
  if (!status.ok()) return status;
  ShowArenas(*steps_, &run);
  weights_ = {};
  gradients_ = {};
  return run;
}

absl::Status AloneLink::BeginStep(uint64_t, uint32_t samples, float rate) {
  return steps_->BeginStep(samples, rate);
}

absl::Status AloneLink::AwaitWeights(ChunkId chunk, uint64_t) {
  return stream_ != nullptr ? steps_->WaitIn(stream_, chunk) : steps_->AwaitWeights(chunk);
}

absl::Status AloneLink::Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
  const absl::StatusOr<const device::Event*> ready = RecordIn(stream_, device_.get(), &ready_);
  if (!ready.ok()) return ready.status();
  return steps_->Publish(chunks, step, *ready);
}

absl::Status AloneLink::Finish(uint64_t) { return steps_->Finish(); }

}  // namespace strata::nccl
