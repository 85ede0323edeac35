#ifndef STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_FIXTURE_H_
#define STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_FIXTURE_H_

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "kernels/kernels.h"
#include "optimizer/update_rule.h"
#include "worker/client/nccl/device_steps.h"

namespace strata::nccl {

inline constexpr uint32_t kChunkElements = 300;
inline constexpr uint32_t kElements = 700;  // 3 chunks, the last one shorter

inline proto::Job SomeJob(const std::string& optimizer) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: \"j\" program { path: \"p\" } max_steps: 2 schedule { base_lr: 0.5 } " + optimizer,
      &job));
  FillDefaults(&job);
  return job;
}

inline proto::Layout SomeLayout() {
  proto::Layout layout;
  layout.set_elements(kElements);
  uint64_t offset = 0;
  const auto add = [&](const char* name, uint32_t size, float lr, bool averaged) {
    proto::Segment* segment = layout.add_segments();
    segment->set_name(name);
    segment->set_offset(offset);
    segment->add_shape(size);
    offset += size;
    segment->set_lr_multiplier(lr);
    segment->set_decay_multiplier(1);
    segment->set_averaged(averaged);
  };
  add("w", 500, 1, false);
  add("b", 150, 2, false);
  add("mean", 50, 1, true);
  return layout;
}

// A multiple of 1 / 1024, so that sums have the same bits in whatever order a library adds.
inline float Gradient(uint32_t rank, uint64_t step, uint32_t i) {
  return std::round(1024 * std::sin(static_cast<float>(i + 7 * rank + 31 * step))) / 1024;
}
inline float FirstWeight(uint32_t i) { return 0.01f * static_cast<float>(i); }

// What one CPU makes of so many steps of the ranks' gradients, added in their order. `rates`: of
// the steps, where the program says them.
inline std::vector<float> Expected(const proto::Job& job, const std::vector<uint32_t>& samples,
                                   uint64_t steps = 2, const std::vector<float>& rates = {}) {
  kernels::UpdateRule rule = kernels::MakeLocalUpdateRule(job, 0, !rates.empty());
  std::vector<float> w(kElements), sum(kElements), state0(kElements), state1(kElements);
  for (uint32_t i = 0; i < kElements; ++i) w[i] = FirstWeight(i);
  const ChunkMap map(kElements, kChunkElements);
  uint32_t step_samples = 0;
  for (const uint32_t each : samples) step_samples += each;
  for (uint64_t step = 0; step < steps; ++step) {
    for (uint32_t i = 0; i < kElements; ++i) {
      sum[i] = Gradient(0, step, i);
      for (uint32_t r = 1; r < samples.size(); ++r) sum[i] += Gradient(r, step, i);
    }
    kernels::Update update = kernels::UpdateAt(rule, (step + 1) * step_samples, step + 1,
                                               {.said = rates.empty() ? 0 : rates[step]});
    update.gradient_scale = static_cast<float>(1.0 / step_samples);
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      const uint64_t at = map.OffsetOf(ChunkId(c));
      kernels::ApplyUpdate(kernels::Cpu(), rule.optimizer, update,
                           OptimizerRuns(SomeLayout(), map, ChunkId(c)), sum.data() + at,
                           w.data() + at, w.data() + at, state0.data() + at, state1.data() + at);
    }
  }
  return w;
}

class DeviceStepsTest : public testing::Test {
 protected:
  DeviceStepsTest() { device::ConfigureTestDevices("devices=4"); }
  ~DeviceStepsTest() override {
    EXPECT_EQ(device::TestDeviceBytes(), 0u) << "device memory is given back, whatever happened";
    device::ConfigureTestDevices("");
  }

  // One rank's steps on the device of its number, begun; others are waited for until `stopped_`.
  std::unique_ptr<DeviceSteps> Begun(const proto::Job& job, const std::string& id, uint32_t ranks,
                                     uint32_t rank, device::StillWanted program_waits = nullptr,
                                     bool says_rates = false, RingStops* stops = nullptr) {
    std::shared_ptr<device::Device> device = device::FindTestDevices()->Use(rank).value();
    const device::StillWanted wanted = [this, stops, until = absl::Now() + absl::Minutes(2)] {
      if (stopped_ || absl::Now() > until) return absl::UnavailableError("the job was stopped");
      return stops == nullptr ? absl::OkStatus() : stops->Check();
    };
    auto steps =
        DeviceSteps::Create(device, job, SomeLayout(), wanted, says_rates, program_waits, stops);
    EXPECT_TRUE(steps.ok()) << steps.status();
    std::vector<float> first(kElements);
    for (uint32_t i = 0; i < kElements; ++i) first[i] = FirstWeight(i);
    EXPECT_EQ((*steps)->TakeWeightsFrom(first.data()), absl::OkStatus());
    std::unique_ptr<device::Communicator> communicator;
    if (ranks > 1) communicator = device->NewCommunicator(id, ranks, rank, wanted).value();
    EXPECT_EQ((*steps)->Begin(std::move(communicator), ranks, kChunkElements, 0), absl::OkStatus());
    return *std::move(steps);
  }

  static std::vector<float> Weights(DeviceSteps& steps) {
    std::vector<float> weights(kElements);
    EXPECT_EQ(steps.BringWeightsTo(weights.data()), absl::OkStatus());
    return weights;
  }

  // Writes a step's gradients from the host, before they are published without an event.
  static void PutGradients(DeviceSteps& steps, uint32_t rank, uint64_t step) {
    std::vector<float> gradients(kElements);
    for (uint32_t i = 0; i < kElements; ++i) gradients[i] = Gradient(rank, step, i);
    const auto stream = steps.device()->NewStream(false).value();
    EXPECT_EQ(stream->Copy(steps.gradients(), gradients.data(), kElements * sizeof(float)),
              absl::OkStatus());
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  }

  // One step whose gradients come from a stream of the rank's own, published by its event.
  static absl::Status Step(DeviceSteps& steps, uint32_t rank, uint64_t step, uint32_t samples,
                           float spoil = 0) {
    if (absl::Status status = steps.BeginStep(samples); !status.ok()) return status;
    std::vector<float> gradients(kElements);
    for (uint32_t i = 0; i < kElements; ++i) gradients[i] = Gradient(rank, step, i);
    gradients[400] += spoil;
    const auto stream = steps.device()->NewStream(false).value();
    const auto ready = steps.device()->NewEvent().value();
    EXPECT_EQ(stream->Copy(steps.gradients(), gradients.data(), kElements * sizeof(float)),
              absl::OkStatus());
    EXPECT_EQ(stream->Record(ready.get()), absl::OkStatus());
    const ChunkId chunks[] = {ChunkId(0), ChunkId(1), ChunkId(2)};
    absl::Status status = steps.Publish(absl::MakeSpan(chunks).subspan(0, 2), step, ready.get());
    if (status.ok()) status = steps.Publish(absl::MakeSpan(chunks).subspan(2), step, nullptr);
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    return status.ok() ? steps.AwaitAll() : status;
  }

  // Skips where devices are too few, or there is no library.
  void InRanks(uint32_t ranks, const std::function<void(uint32_t, const std::string&)>& body) {
    if (device::TestDeviceCount() < ranks) GTEST_SKIP() << "needs a device for each rank";
    const auto made = device::FindTestDevices()->Use(0).value()->NewCommunicatorId();
    if (absl::IsNotFound(made.status()) || absl::IsUnimplemented(made.status())) {
      GTEST_SKIP() << made.status().message();
    }
    ASSERT_TRUE(made.ok()) << made.status();
    const std::string& id = *made;
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(r, id); });
    for (std::thread& thread : threads) thread.join();
  }

  std::atomic<bool> stopped_ = false;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_DEVICE_STEPS_FIXTURE_H_
