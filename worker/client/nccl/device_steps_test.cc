// Ranks as threads, each with a device of its own, against the CPU's kernels.
#include "worker/client/nccl/device_steps.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "worker/aggregator/device/gpu_budget.h"
#include "worker/client/nccl/device_steps_fixture.h"
#include "worker/client/nccl/sent_trace.h"

namespace strata::nccl {
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
    // Its end would abort what the other still waits for.
    EXPECT_TRUE(stepped[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
    EXPECT_EQ(status, r == 0 ? absl::OkStatus()
                             : absl::InvalidArgumentError(
                                   "the gradient of chunk 1 is not finite at step 1"));
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

// What only fake devices do when they are told to.
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

// The library tells who loses a peer before the job knows of that peer's end.
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
      absl::SleepFor(absl::Milliseconds(1));  // the communicator is aborted soon after that is said
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

}  // namespace
}  // namespace strata::nccl
