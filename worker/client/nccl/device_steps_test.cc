#include "worker/client/nccl/device_steps.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/diverged.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "kernels/kernels.h"
#include "numerics/update.h"
#include "worker/aggregator/device/gpu_budget.h"
#include "worker/client/nccl/sent_trace.h"

// Ranks as threads, each with a device of its own, against the CPU's kernels.

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

// A multiple of 1 / 1024, so that sums have the same bits in any order of addition.
inline float Gradient(uint32_t rank, uint64_t step, uint32_t i) {
  return std::round(1024 * std::sin(static_cast<float>(i + 7 * rank + 31 * step))) / 1024;
}
inline float FirstWeight(uint32_t i) { return 0.01f * static_cast<float>(i); }

// By rank, for the ranks that make a step.
using StepSamples = std::map<uint32_t, uint32_t>;

// Returns the weights that one CPU computes from the gradients of these steps, added in the ranks'
// order. `rates`: one per step, if the program gives them.
inline std::vector<float> ExpectedOf(const proto::Job& job, const std::vector<StepSamples>& steps,
                                     const std::vector<float>& rates = {}) {
  numerics::UpdateRule rule = numerics::MakeLocalUpdateRule(job, 0, !rates.empty());
  std::vector<float> w(kElements), sum(kElements), state0(kElements), state1(kElements);
  for (uint32_t i = 0; i < kElements; ++i) w[i] = FirstWeight(i);
  const ChunkMap map(kElements, kChunkElements);
  uint64_t samples = 0;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    uint32_t step_samples = 0;
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const auto& [rank, of_rank] : steps[step]) {
      step_samples += of_rank;
      for (uint32_t i = 0; i < kElements; ++i) sum[i] += Gradient(rank, step, i);
    }
    samples += step_samples;
    numerics::Update update =
        numerics::UpdateAt(rule, samples, step + 1, {.said = rates.empty() ? 0 : rates[step]});
    update.gradient_scale = static_cast<float>(1.0 / step_samples);
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      const uint64_t at = map.OffsetOf(ChunkId(c));
      numerics::ApplyUpdate(kernels::Cpu(), rule.optimizer, update,
                            OptimizerRuns(SomeLayout(), map, ChunkId(c)), sum.data() + at,
                            w.data() + at, w.data() + at, state0.data() + at, state1.data() + at);
    }
  }
  return w;
}

// The same for steps that all ranks make.
inline std::vector<float> Expected(const proto::Job& job, const std::vector<uint32_t>& samples,
                                   uint64_t steps = 2, const std::vector<float>& rates = {}) {
  StepSamples each;
  for (uint32_t r = 0; r < samples.size(); ++r) each[r] = samples[r];
  return ExpectedOf(job, std::vector<StepSamples>(steps, each), rates);
}

class DeviceStepsTest : public testing::Test {
 protected:
  DeviceStepsTest() { device::ConfigureTestDevices("devices=4"); }
  ~DeviceStepsTest() override {
    EXPECT_EQ(device::TestDeviceBytes(), 0u) << "device memory is given back, whatever happened";
    device::ConfigureTestDevices("");
  }

  // One rank's steps on the device of its number, begun; it waits for others until `stopped_`.
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

  // Skips if there are too few devices, or no library.
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

namespace {

using device::ConfigureTestDevices;
using device::FindTestDevices;
using testing::HasSubstr;

TEST_F(DeviceStepsTest, OneRankHasTheBitsOfTheCpu) {
  for (const char* optimizer : {"optimizer { sgd {} }", "optimizer { momentum_sgd {} }",
                                "optimizer { adamw { weight_decay: 0.1 } }"}) {
    const proto::Job job = SomeJob(optimizer);
    const auto steps = Begun(job, "", 1, 0);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(Step(*steps, 0, step, 5), absl::OkStatus());
    }
    std::vector<float> weights(kElements);
    ASSERT_EQ(steps->BringWeightsTo(weights.data()), absl::OkStatus());
    EXPECT_EQ(weights, Expected(job, {5})) << optimizer;
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  }
}

TEST_F(DeviceStepsTest, RanksWithDifferentNumbersOfSamplesAllHaveTheUpdateOfTheirSum) {
  const proto::Job job = SomeJob("optimizer { momentum_sgd { weight_decay: 0.01 } }");
  InRanks(3, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 3, r);
    EXPECT_EQ(steps->Sum(10 + r).value(), 33u);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(Step(*steps, r, step, 4 + r), absl::OkStatus());
    }
    std::vector<float> weights(kElements);
    ASSERT_EQ(steps->BringWeightsTo(weights.data()), absl::OkStatus());
    EXPECT_EQ(weights, Expected(job, {4, 5, 6}));
    EXPECT_EQ(steps->chunks_reduced(), 6u);
    EXPECT_EQ(steps->bytes_reduced(), 2 * kElements * sizeof(float));
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

TEST_F(DeviceStepsTest, ATracedStepsSumsAreInTheTraceOfEachRank) {
  proto::Job job = SomeJob("optimizer { sgd {} }");
  job.mutable_trace()->set_first_step(1);
  job.mutable_trace()->set_steps(1);
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_EQ(Step(*steps, r, step, 1), absl::OkStatus());
    }
    ASSERT_EQ(steps->Finish(), absl::OkStatus());
    const auto send = [&](client::AgentChannel* agent) { steps->SendTrace(agent, true); };
    ExpectTracedSums(SentTrace(send), 3, 1, r);
  });
}

TEST_F(DeviceStepsTest, AStreamFindsTheNextWeightsWithoutTheHostsWaiting) {
  const proto::Job job = SomeJob("optimizer { momentum_sgd {} }");
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    const auto stream = steps->device()->NewStream(false).value();
    std::vector<float> gradients(kElements), weights(kElements);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(steps->BeginStep(4 + r), absl::OkStatus());
      for (uint32_t i = 0; i < kElements; ++i) gradients[i] = Gradient(r, step, i);
      ASSERT_EQ(stream->Copy(steps->gradients(), gradients.data(), kElements * sizeof(float)),
                absl::OkStatus());
      const auto ready = steps->device()->NewEvent().value();
      ASSERT_EQ(stream->Record(ready.get()), absl::OkStatus());
      for (const uint32_t c : {0, 1, 2}) {
        ASSERT_EQ(steps->Publish({ChunkId(c)}, step, ready.get()), absl::OkStatus());
      }
      for (const uint32_t c : {0, 1, 2}) {
        ASSERT_EQ(steps->WaitIn(stream.get(), ChunkId(c)), absl::OkStatus());
      }
      ASSERT_EQ(stream->Copy(weights.data(), steps->weights(), kElements * sizeof(float)),
                absl::OkStatus());
      ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
      EXPECT_EQ(weights, Expected(job, {4, 5}, step + 1));
    }
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

TEST_F(DeviceStepsTest, AGradientThatIsNotFiniteIsItsOwnRanksFault) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification stepped[2];
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    ASSERT_EQ(Step(*steps, r, 0, 1), absl::OkStatus());
    const absl::Status status = Step(*steps, r, 1, 1, r == 1 ? INFINITY : 0);
    stepped[r].Notify();
    // Destroying it would abort what the other still waits for.
    EXPECT_TRUE(stepped[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
    EXPECT_EQ(status, r == 0 ? absl::OkStatus()
                             : DivergedError("the gradient of chunk 1 is not finite at step 1"));
  });
}

TEST_F(DeviceStepsTest, TheProgramEndsAWaitForAnotherRankAndMayWaitAgain) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification ended;
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const absl::Status interrupted = absl::CancelledError("interrupted");
    bool interrupts = false;
    const auto steps =
        Begun(job, id, 2, r, [&] { return interrupts ? interrupted : absl::OkStatus(); });
    ASSERT_EQ(steps->BeginStep(1), absl::OkStatus());
    for (const uint32_t c : {0, 1, 2}) {
      if (r == 1 && c == 1) ended.WaitForNotificationWithTimeout(absl::Minutes(2));
      ASSERT_EQ(steps->Publish({ChunkId(c)}, 0, nullptr), absl::OkStatus());
    }
    interrupts = r == 0;
    if (r == 0) {
      EXPECT_EQ(steps->AwaitWeights(ChunkId(2)), interrupted);
      ended.Notify();
    }
    interrupts = false;
    EXPECT_EQ(steps->AwaitAll(), absl::OkStatus());
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

// Faults that only fake devices can produce.
using DeviceStepsOnFake = DeviceStepsTest;

TEST_F(DeviceStepsOnFake, AnErrorOfOneRankIsItsAndTheOthersWaitOnlyUntilTheyAreTold) {
  // The first step's sums: samples, three chunks; of the second one samples and one chunk.
  ConfigureTestDevices("devices=4,nccl_fails_rank=1,nccl_fails_at=6");
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    ASSERT_EQ(Step(*steps, r, 0, 1), absl::OkStatus());
    const absl::Status status = Step(*steps, r, 1, 1);
    if (r == 0) {
      EXPECT_EQ(status, absl::UnavailableError("the job was stopped"));
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("device 1: NCCL: a collective: remote"));
    absl::SleepFor(absl::Milliseconds(20));
    stopped_ = true;
  });
}

// The library may report a lost peer before the job knows of that peer's exit.
TEST_F(DeviceStepsOnFake, WhatTheJobSaysSoonAfterAnErrorIsItsCause) {
  ConfigureTestDevices("devices=4,nccl_fails_rank=1,nccl_fails_at=6");
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification stepped;
  std::thread the_job([&] {
    stepped.WaitForNotificationWithTimeout(absl::Minutes(1));
    absl::SleepFor(absl::Milliseconds(100));
    stopped_ = true;
  });
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    EXPECT_EQ(Step(*steps, r, 0, 1), absl::OkStatus());
    if (r == 1) stepped.Notify();
    EXPECT_EQ(Step(*steps, r, 1, 1), absl::UnavailableError("the job was stopped"));
  });
  the_job.join();
}

TEST_F(DeviceStepsOnFake, AStreamThatWaitsForASumIsLetGoOnceThereCanBeNone) {
  // The first step's sums: samples, three chunks.
  ConfigureTestDevices("devices=4,nccl_fails_rank=1,nccl_fails_at=3");
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    const auto stream = steps->device()->NewStream(false).value();
    absl::Status status = steps->BeginStep(1);
    for (const uint32_t c : {0, 1, 2}) {
      if (status.ok()) status = steps->Publish({ChunkId(c)}, 0, nullptr);
      if (status.ok()) status = steps->WaitIn(stream.get(), ChunkId(c));
    }
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    if (status.ok()) status = steps->BeginStep(1);
    if (r == 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()), HasSubstr("device 1: NCCL: a collective: remote"));
      stopped_ = true;
    } else {
      EXPECT_EQ(status, absl::UnavailableError("the job was stopped"));
    }
    EXPECT_EQ(steps->Publish({ChunkId(0)}, 1, nullptr), status) << "and so from then on";
    EXPECT_EQ(steps->Finish(), status);
  });
}

TEST_F(DeviceStepsTest, WhyThereCanBeNoSumIsSaidOfThoseThatBeginAfterwards) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification begun[2];
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    const auto stream = steps->device()->NewStream(false).value();
    begun[r].Notify();
    ASSERT_TRUE(begun[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
    stopped_ = true;
    const auto why = absl::UnavailableError("the job was stopped");
    const absl::Time until = absl::Now() + absl::Minutes(1);
    while (steps->WaitIn(stream.get(), ChunkId(0)).ok() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(steps->Sum(1).status(), why);
      absl::SleepFor(absl::Milliseconds(1));  // the communicator is aborted soon after that
    }
    EXPECT_EQ(steps->Finish(), why);
  });
}

TEST_F(DeviceStepsOnFake, ARankTakesWhatTheFormulaSays) {
  proto::Placement placement;
  placement.set_chunk_elements(kChunkElements);
  for (const char* optimizer : {"optimizer { sgd {} }", "optimizer { momentum_sgd {} }",
                                "optimizer { adamw { weight_decay: 0.1 } }"}) {
    proto::Job job = SomeJob(optimizer);
    job.set_device(proto::Job::GPU);
    job.set_exchange(proto::Job::NCCL);
    for (const bool drops : {false, true}) {
      if (drops) job.set_on_loss(proto::Job::DROP);
      RingStops stops(
          1, [] { return 0; }, [](const RingStops::Answer&) {});
      const auto steps = Begun(job, "", 1, 0, nullptr, false, drops ? &stops : nullptr);
      EXPECT_EQ(device::TestDeviceBytes(),
                worker::MemoryOfGpus(job, kElements, 1, 1, placement).total());
      EXPECT_EQ(device::TestDeviceBytes(), steps->device_bytes()) << "and it says so";
    }
  }
}

TEST_F(DeviceStepsOnFake, TooLittleMemoryIsSaidWithWhatItWasFor) {
  ConfigureTestDevices("memory_kb=8");
  const absl::Status status = DeviceSteps::Create(FindTestDevices()->Use(0).value(),
                                                  SomeJob("optimizer { momentum_sgd {} }"),
                                                  SomeLayout(), [] { return absl::OkStatus(); })
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("8.2 KiB asked for the rank's weights, gradients and optimizer state"));
}

// Tests of what a program declares about its steps, and of ranks that differ in it.

TEST_F(DeviceStepsTest, TheProgramsRatesAreThoseOfItsSteps) {
  const proto::Job job = SomeJob("optimizer { adamw { weight_decay: 0.1 } }");
  const std::vector<float> rates = {0.25f, 0.1f};
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r, nullptr, /*says_rates=*/true);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(steps->BeginStep(4 + r, rates[step]), absl::OkStatus());
      PutGradients(*steps, r, step);
      ASSERT_EQ(steps->Publish({ChunkId(0), ChunkId(1), ChunkId(2)}, step, nullptr),
                absl::OkStatus());
      ASSERT_EQ(steps->AwaitAll(), absl::OkStatus());
    }
    EXPECT_EQ(Weights(*steps), Expected(job, {4, 5}, 2, rates));
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

TEST_F(DeviceStepsTest, RanksThatSayOtherRatesAreRefusedBeforeAnythingIsApplied) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification told[2];
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r, nullptr, /*says_rates=*/true);
    const std::vector<float> before = Weights(*steps);
    ASSERT_EQ(steps->BeginStep(1, r == 0 ? 0.25f : 0.1f), absl::OkStatus());
    const std::string rate = r == 0 ? "0.25" : "0.100000001";
    EXPECT_EQ(steps->Publish({ChunkId(0)}, 0, nullptr),
              absl::InvalidArgumentError("says learning rate " + rate +
                                         " at step 0, another rank another one"));
    EXPECT_EQ(Weights(*steps), before);
    told[r].Notify();
    // Destroying it would abort what the other still waits for.
    EXPECT_TRUE(told[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
  });
}

TEST_F(DeviceStepsTest, ARankThatEndsBeforeTheOthersIsRefused) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification told[2];
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    ASSERT_EQ(Step(*steps, r, 0, 1), absl::OkStatus());
    if (r == 0) {
      EXPECT_EQ(steps->Sum(7).status(),
                absl::InvalidArgumentError("ends after 1 step, but another rank goes on"));
    } else {
      EXPECT_EQ(
          Step(*steps, r, 1, 1),
          absl::InvalidArgumentError("goes on with step 1, but another rank has made its last"));
    }
    told[r].Notify();
    EXPECT_TRUE(told[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
  });
}

TEST_F(DeviceStepsTest, RanksMayPublishChunksInOrdersOfTheirOwn) {
  const proto::Job job = SomeJob("optimizer { momentum_sgd {} }");
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(steps->BeginStep(4 + r), absl::OkStatus());
      PutGradients(*steps, r, step);
      for (const uint32_t i : {0, 1, 2}) {
        const uint32_t chunk = r == 0 ? i : (i + 1 + step) % 3;
        ASSERT_EQ(steps->Publish({ChunkId(chunk)}, step, nullptr), absl::OkStatus());
      }
      ASSERT_EQ(steps->AwaitAll(), absl::OkStatus());
    }
    EXPECT_EQ(Weights(*steps), Expected(job, {4, 5}));
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

TEST_F(DeviceStepsTest, Rank0sFirstWeightsAreTakenBitForBit) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  const auto of_rank = [](uint32_t rank) {
    std::vector<float> weights(kElements, static_cast<float>(rank) + 0.5f);
    weights[0] = rank == 0 ? -0.0f : 1;
    weights[1] = std::bit_cast<float>(0x7fc0'0001u + rank);  // each rank's own NaN
    weights[2] = rank == 0 ? INFINITY : 1;
    return weights;
  };
  InRanks(3, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 3, r);
    ASSERT_EQ(steps->TakeWeightsFrom(of_rank(r).data()), absl::OkStatus());
    ASSERT_EQ(steps->TakeWeightsOfRank0(), absl::OkStatus());
    const std::vector<float> found = Weights(*steps), expected = of_rank(0);
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), kElements * sizeof(float)), 0);
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

// Ranks as threads that continue without those that die, against the CPU's kernels.

using Ranks = std::vector<uint32_t>;

// Samples of a rank in a step.
uint32_t SamplesOf(uint32_t rank) { return 4 + rank; }

// Returns the weights that one CPU computes from steps with the gradients of these ranks.
std::vector<float> Made(const proto::Job& job, const std::vector<Ranks>& steps) {
  std::vector<StepSamples> samples(steps.size());
  for (size_t step = 0; step < steps.size(); ++step) {
    for (const uint32_t rank : steps[step]) samples[step][rank] = SamplesOf(rank);
  }
  return ExpectedOf(job, samples);
}

// Decides which ranks continue: asks them to stop, and announces the next ring.
class Rings {
 public:
  struct Ring {
    uint32_t number = 0;
    std::string id;
    Ranks ranks;
  };

  uint32_t asked() const {
    absl::MutexLock lock(&mutex_);
    return asked_;
  }
  void Take(uint32_t rank, const RingStops::Answer& answer) {
    absl::MutexLock lock(&mutex_);
    answers_[{answer.number, rank}] = answer;
  }
  // Stops these ranks, and returns how many steps each of them has made.
  std::vector<uint64_t> Stop(uint32_t number, const Ranks& ranks) {
    absl::MutexLock lock(&mutex_);
    asked_ = number;
    std::vector<uint64_t> steps;
    for (const uint32_t rank : ranks) {
      const auto has_answered = [&] {
        mutex_.AssertHeld();
        return answers_.contains({number, rank});
      };
      EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&has_answered), absl::Minutes(1)));
      steps.push_back(answers_[{number, rank}].steps);
    }
    return steps;
  }
  void Form(uint32_t number, const Ranks& ranks) {
    const std::string id = device::FindTestDevices()->Use(0).value()->NewCommunicatorId().value();
    absl::MutexLock lock(&mutex_);
    ring_ = {.number = number, .id = id, .ranks = ranks};
  }
  // Returns the newest ring, once it is the one that ranks have stopped for. None in a minute:
  // number 0.
  Ring Await() {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&] {
      mutex_.AssertHeld();
      return ring_.number == asked_;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&is_there), absl::Minutes(1)) ? ring_ : Ring();
  }

 private:
  mutable absl::Mutex mutex_;
  uint32_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<uint32_t, uint32_t>, RingStops::Answer> answers_ ABSL_GUARDED_BY(mutex_);
  Ring ring_ ABSL_GUARDED_BY(mutex_);
};

class DeviceStepsInRings : public DeviceStepsTest {
 protected:
  // A rank that repeats stopped calls in the next ring.
  struct Rank {
    Rank(Rings* rings, uint32_t number)
        : rings(rings),
          number(number),
          stops(
              1, [rings] { return rings->asked(); },
              [rings, number](const RingStops::Answer& answer) { rings->Take(number, answer); }) {}

    absl::Status InRings(const std::function<absl::Status()>& call) {
      while (true) {
        absl::Status status = call();
        if (!absl::IsAborted(status)) return status;
        status = GoOn();
        if (!status.ok()) return status;
        ++formed;
      }
    }
    absl::Status GoOn() {
      while (true) {
        if (absl::Status left = steps->LeaveRing(); !left.ok()) return left;
        const Rings::Ring ring = rings->Await();
        if (ring.number == 0) return absl::DeadlineExceededError("no ring");
        if (!stops.Form(ring.number)) continue;
        const auto ranks = static_cast<uint32_t>(ring.ranks.size());
        const auto self = static_cast<uint32_t>(
            std::find(ring.ranks.begin(), ring.ranks.end(), number) - ring.ranks.begin());
        auto made = steps->device()->NewCommunicator(ring.id, ranks, self,
                                                     [this] { return stops.Check(); });
        absl::Status status = made.status();
        if (status.ok()) status = steps->GoOn(*std::move(made), ranks, self);
        if (!absl::IsAborted(status)) return status;
      }
    }
    absl::Status Begin(uint64_t step) {
      absl::Status status = InRings([&] { return steps->BeginStep(SamplesOf(number)); });
      if (status.ok()) PutGradients(*steps, number, step);
      return status;
    }
    absl::Status Publish(uint64_t step, const std::vector<ChunkId>& chunks) {
      return InRings([&] { return steps->Publish(chunks, step, nullptr); });
    }
    absl::Status Await() {
      return InRings([&] { return steps->AwaitAll(); });
    }
    absl::Status Step(uint64_t step) {
      absl::Status status = Begin(step);
      if (status.ok()) status = Publish(step, {ChunkId(0), ChunkId(1), ChunkId(2)});
      return status.ok() ? Await() : status;
    }
    absl::Status End() {
      absl::Status status = InRings([&] {
        absl::Status summed = steps->Sum(7).status();
        return summed.ok() && !stops.End() ? stops.Check() : summed;
      });
      return status.ok() ? steps->Finish() : status;
    }

    Rings* const rings;
    const uint32_t number;
    RingStops stops;
    std::unique_ptr<DeviceSteps> steps;
    int formed = 0;
  };

  // Runs each rank on a thread of its own, from the first weights on.
  void Train(uint32_t ranks, const std::function<void(Rank&)>& body) {
    InRanks(ranks, [&](uint32_t r, const std::string& id) {
      Rank rank(&rings_, r);
      rank.steps = Begun(job_, id, ranks, r, nullptr, false, &rank.stops);
      rank.stops.Begin();
      body(rank);
    });
  }

  // Skips if ranks are too few, before anybody waits for them.
  void SetUp() override {
    InRanks(3, [](uint32_t, const std::string&) {});
  }

  const proto::Job job_ = SomeJob("optimizer { adamw { weight_decay: 0.1 } }");
  Rings rings_;
};

TEST_F(DeviceStepsInRings, WhileNobodyDiesRanksHaveTheBitsOfTheCpu) {
  Train(3, [&](Rank& rank) {
    for (uint64_t step = 0; step < 4; ++step) ASSERT_EQ(rank.Step(step), absl::OkStatus());
    EXPECT_EQ(Weights(*rank.steps), Made(job_, std::vector<Ranks>(4, {0, 1, 2})));
    EXPECT_EQ(rank.End(), absl::OkStatus());
    EXPECT_EQ(rank.formed, 0);
  });
}

TEST_F(DeviceStepsInRings, AStepThatNoRankHasMadeIsMadeAgainByThoseThatAreLeft) {
  absl::Notification dead;
  std::thread decides([&] {
    dead.WaitForNotification();
    EXPECT_EQ(rings_.Stop(2, {0, 2}), (std::vector<uint64_t>{1, 1}));
    rings_.Form(2, {0, 2});
  });
  Train(3, [&](Rank& rank) {
    ASSERT_EQ(rank.Step(0), absl::OkStatus());
    if (rank.number == 1) {
      // Its gradients of part of the step have arrived.
      ASSERT_EQ(rank.Begin(1), absl::OkStatus());
      ASSERT_EQ(rank.Publish(1, {ChunkId(0)}), absl::OkStatus());
      return dead.Notify();
    }
    for (uint64_t step = 1; step < 4; ++step) ASSERT_EQ(rank.Step(step), absl::OkStatus());
    EXPECT_EQ(rank.formed, 1);
    EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1, 2}, {0, 2}, {0, 2}, {0, 2}}));
    EXPECT_EQ(rank.End(), absl::OkStatus());
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, WhatIsPublishedOfAStepWhenItIsStoppedCountsInTheNextRing) {
  absl::Barrier published(3);
  absl::Notification formed;
  std::thread decides([&] {
    published.Block();
    EXPECT_EQ(rings_.Stop(2, {0, 1}), (std::vector<uint64_t>{0, 0}));
    rings_.Form(2, {1, 0});
    formed.Notify();
  });
  Train(2, [&](Rank& rank) {
    ASSERT_EQ(rank.Begin(0), absl::OkStatus());
    ASSERT_EQ(rank.Publish(0, {ChunkId(rank.number)}), absl::OkStatus());
    published.Block();
    formed.WaitForNotification();
    for (const uint32_t chunk : {2u, 1 - rank.number}) {
      ASSERT_EQ(rank.Publish(0, {ChunkId(chunk)}), absl::OkStatus());
    }
    ASSERT_EQ(rank.Await(), absl::OkStatus());
    EXPECT_EQ(rank.formed, 1);
    ASSERT_EQ(rank.Step(1), absl::OkStatus());
    EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1}, {0, 1}}));
    EXPECT_EQ(rank.steps->Cut(2)->at(0).weights.samples, 2 * (SamplesOf(0) + SamplesOf(1)));
    EXPECT_EQ(rank.End(), absl::OkStatus());
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, ARankThatIsAStepBehindIsGivenItByAnotherOne) {
  absl::Notification ahead, formed;
  std::thread decides([&] {
    ahead.WaitForNotification();
    EXPECT_EQ(rings_.Stop(2, {0, 1}), (std::vector<uint64_t>{1, 2}));
    rings_.Form(2, {0, 1});
    formed.Notify();
  });
  Train(3, [&](Rank& rank) {
    ASSERT_EQ(rank.Step(0), absl::OkStatus());
    ASSERT_EQ(rank.Begin(1), absl::OkStatus());
    ASSERT_EQ(rank.Publish(1, {ChunkId(0), ChunkId(1), ChunkId(2)}), absl::OkStatus());
    // Destroying it would abort sums that the others still make.
    if (rank.number == 2) return ahead.WaitForNotification();
    if (rank.number == 1) {
      ASSERT_EQ(rank.Await(), absl::OkStatus());
      // The next step has begun here; its gradients overwrite those of the previous one.
      ASSERT_EQ(rank.Begin(2), absl::OkStatus());
      ahead.Notify();
    }
    formed.WaitForNotification();
    if (rank.number == 0) {
      ASSERT_EQ(rank.Await(), absl::OkStatus());
      EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1, 2}, {0, 1, 2}}));
      ASSERT_EQ(rank.Begin(2), absl::OkStatus());
    }
    ASSERT_EQ(rank.Publish(2, {ChunkId(0), ChunkId(1), ChunkId(2)}), absl::OkStatus());
    ASSERT_EQ(rank.Await(), absl::OkStatus());
    EXPECT_EQ(rank.formed, 1);
    EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1, 2}, {0, 1, 2}, {0, 1}}));
    EXPECT_EQ(rank.End(), absl::OkStatus());
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, WhereTheOnlyRankDiesThatHasMadeAStepTheOthersMakeItFromWhatTheyKept) {
  absl::Notification made, formed;
  std::thread decides([&] {
    made.WaitForNotification();
    EXPECT_EQ(rings_.Stop(2, {1, 2}), (std::vector<uint64_t>{0, 0}));
    rings_.Form(2, {1, 2});
    formed.Notify();
  });
  Train(3, [&](Rank& rank) {
    ASSERT_EQ(rank.Begin(0), absl::OkStatus());
    ASSERT_EQ(rank.Publish(0, {ChunkId(0), ChunkId(1), ChunkId(2)}), absl::OkStatus());
    if (rank.number == 0) {
      ASSERT_EQ(rank.Await(), absl::OkStatus());
      EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1, 2}}));
      return made.Notify();
    }
    formed.WaitForNotification();
    ASSERT_EQ(rank.Await(), absl::OkStatus());
    EXPECT_EQ(Weights(*rank.steps), Made(job_, {{1, 2}}));
    EXPECT_EQ(rank.End(), absl::OkStatus());
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, ARankThatDiesBeforeTheNextRingIsThereIsLeftOutOfTheOneAfterIt) {
  absl::Barrier made(3);
  absl::Notification dead;
  std::thread decides([&] {
    dead.WaitForNotification();
    EXPECT_EQ(rings_.Stop(2, {0, 1}), (std::vector<uint64_t>{1, 1}));
    rings_.Form(2, {0, 1});  // which 1 never joins
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_EQ(rings_.Stop(3, {0}), (std::vector<uint64_t>{1}));
    rings_.Form(3, {0});
  });
  Train(3, [&](Rank& rank) {
    ASSERT_EQ(rank.Step(0), absl::OkStatus());
    made.Block();
    if (rank.number == 2) return dead.Notify();
    if (rank.number == 1) {
      while (rings_.asked() < 3) absl::SleepFor(absl::Milliseconds(1));
      return;
    }
    for (uint64_t step = 1; step < 3; ++step) ASSERT_EQ(rank.Step(step), absl::OkStatus());
    EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1, 2}, {0}, {0}}));
    EXPECT_EQ(rank.End(), absl::OkStatus());
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, TheOneThatIsToGiveAStepMayDieAsItDoes) {
  absl::Notification ahead, met;
  std::thread decides([&] {
    ahead.WaitForNotification();
    EXPECT_EQ(rings_.Stop(2, {0, 1, 2}), (std::vector<uint64_t>{1, 0, 0}));
    rings_.Form(2, {0, 1, 2});
    met.WaitForNotification();
    EXPECT_EQ(rings_.Stop(3, {1, 2}), (std::vector<uint64_t>{0, 0}));
    rings_.Form(3, {1, 2});
  });
  Train(3, [&](Rank& rank) {
    ASSERT_EQ(rank.Begin(0), absl::OkStatus());
    ASSERT_EQ(rank.Publish(0, {ChunkId(0), ChunkId(1), ChunkId(2)}), absl::OkStatus());
    if (rank.number == 0) {
      ASSERT_EQ(rank.Await(), absl::OkStatus());
      ahead.Notify();
      // It joins the ring and reports its progress; then it sends nothing any more.
      while (rings_.asked() < 2) absl::SleepFor(absl::Milliseconds(1));
      const Rings::Ring ring = rings_.Await();
      ASSERT_EQ(rank.steps->LeaveRing(), absl::OkStatus());
      const auto stream = rank.steps->device()->NewStream(false).value();
      const auto communicator =
          rank.steps->device()->NewCommunicator(ring.id, 3, 0, [] { return absl::OkStatus(); });
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      const auto sums = RankSums::Create(rank.steps->device().get(), stream.get(), 3).value();
      ASSERT_EQ(sums->StartEach(communicator->get(), 3, 0, 1, [] { return absl::OkStatus(); }),
                absl::OkStatus());
      ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
      EXPECT_EQ(sums->Each(), (std::vector<uint64_t>{1, 0, 0}));
      return met.Notify();
    }
    while (rings_.asked() < 2) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_EQ(rank.Await(), absl::OkStatus());
    EXPECT_EQ(rank.formed, 1);
    EXPECT_EQ(Weights(*rank.steps), Made(job_, {{1, 2}}));
    EXPECT_EQ(rank.End(), absl::OkStatus());
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, OnceAllRanksHaveMadeAllStepsNoneIsNeeded) {
  absl::Notification over;
  std::thread decides([&] {
    over.WaitForNotification();
    rings_.Stop(2, {0});
  });
  absl::Barrier met(2), ended(2);
  Train(2, [&](Rank& rank) {
    ASSERT_EQ(rank.Step(0), absl::OkStatus());
    ASSERT_EQ(rank.steps->Sum(7).value(), 14u);
    ASSERT_TRUE(rank.stops.End());
    met.Block();
    if (rank.number == 0) {
      over.Notify();
      EXPECT_EQ(rank.steps->Finish(), absl::OkStatus()) << "though the other one never comes";
    }
    ended.Block();
  });
  decides.join();
}

TEST_F(DeviceStepsInRings, AGradientThatIsNotFiniteIsNotApplied) {
  absl::Barrier done(2);
  Train(2, [&](Rank& rank) {
    ASSERT_EQ(rank.Step(0), absl::OkStatus());
    const absl::Status status = Step(*rank.steps, rank.number, 1, 1, rank.number == 1 ? NAN : 0);
    if (rank.number == 1) {
      EXPECT_EQ(status, DivergedError("the gradient of chunk 1 is not finite at step 1"));
      EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1}}));
    }
    done.Block();
  });
}

}  // namespace

}  // namespace strata::nccl
