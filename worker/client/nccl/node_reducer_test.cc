// Ranks as threads, each with a device of its own.
#include "worker/client/nccl/node_reducer.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/diverged.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "worker/client/nccl/sent_trace.h"

namespace strata::nccl {
namespace {

using device::ConfigureTestDevices;
using device::FindTestDevices;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kChunkElements = 300;
constexpr uint32_t kElements = 700;  // 3 chunks, the last one shorter
constexpr absl::Duration kDeadline = absl::Seconds(60);

// Sums of a few are exact.
float Gradient(uint32_t rank, uint64_t step, uint32_t i) {
  return static_cast<float>(1000 * rank + 100 * step) + 0.25f * static_cast<float>(i);
}

// One rank: its device, its gradients there, and its reducer's reports.
class Rank {
 public:
  Rank(uint32_t rank, uint32_t ranks, const std::string& id, const proto::Job& job,
       const std::atomic<bool>* stopped)
      : rank_(rank) {
    device_ = FindTestDevices()->Use(rank).value();
    gradients_ = device_->Allocate(kElements * sizeof(float), "a test").value();
    stream_ = device_->NewStream(false).value();
    const device::StillWanted wanted = [stopped] {
      return *stopped ? absl::UnavailableError("the job was stopped") : absl::OkStatus();
    };
    client::NodeSumCalls calls = {
        .computed = [this](uint64_t) { ++computed; },
        .reduced =
            [this](ChunkId chunk, uint64_t step) {
              reduced.emplace_back(chunk.value(), step);
              return absl::OkStatus();
            },
        .still_wanted = wanted,
        .caller_waits =
            [this, wanted] { return interrupts ? absl::CancelledError("interrupted") : wanted(); }};
    auto communicator = device_->NewCommunicator(id, ranks, rank, wanted).value();
    auto made = NodeReducer::Create({.device = device_,
                                     .communicator = std::move(communicator),
                                     .local_rank = rank,
                                     .local_ranks = ranks,
                                     .gradients = gradients_,
                                     .map = ChunkMap(kElements, kChunkElements),
                                     .job = job,
                                     .calls = std::move(calls)});
    EXPECT_TRUE(made.ok()) << made.status();
    reducer = *std::move(made);
  }

  // Not done when it returns.
  void Compute(uint64_t step, float spoil = 0) {
    for (uint32_t i = 0; i < kElements; ++i) computing_[i] = Gradient(rank_, step, i);
    computing_[400] += spoil;
    EXPECT_EQ(stream_->Copy(gradients_.get(), computing_.data(), kElements * sizeof(float)),
              absl::OkStatus());
  }
  absl::Status Publish(uint64_t step, const std::vector<uint32_t>& chunks) {
    for (const uint32_t c : chunks) {
      absl::Status status = reducer->PublishAfter(stream_.get(), {ChunkId(c)}, step);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  std::vector<float> Gradients() {
    std::vector<float> values(kElements);
    EXPECT_EQ(stream_->Copy(values.data(), gradients_.get(), kElements * sizeof(float)),
              absl::OkStatus());
    EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
    return values;
  }

  bool interrupts = false;  // interrupts the caller's waits
  std::atomic<int> computed = 0;
  std::vector<std::pair<uint32_t, uint64_t>> reduced;  // chunk, step
  std::unique_ptr<NodeReducer> reducer;

 private:
  const uint32_t rank_;
  std::vector<float> computing_ = std::vector<float>(kElements);
  std::shared_ptr<device::Device> device_;
  device::Memory gradients_;
  std::unique_ptr<device::Stream> stream_;
};

class NodeReducerTest : public testing::Test {
 protected:
  NodeReducerTest() { ConfigureTestDevices("devices=4,delay_us=500"); }
  ~NodeReducerTest() override {
    EXPECT_EQ(device::TestDeviceBytes(), 0u) << "device memory is given back, whatever happened";
    ConfigureTestDevices("");
  }

  // Skips if there are too few devices, or no library.
  void InRanks(uint32_t ranks, const std::function<void(uint32_t, Rank&)>& body) {
    if (device::TestDeviceCount() < ranks) GTEST_SKIP() << "needs a device for each rank";
    const auto id = FindTestDevices()->Use(0).value()->NewCommunicatorId();
    if (absl::IsNotFound(id.status()) || absl::IsUnimplemented(id.status())) {
      GTEST_SKIP() << id.status().message();
    }
    ASSERT_TRUE(id.ok()) << id.status();
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        Rank rank(r, ranks, *id, job_, &stopped_);
        body(r, rank);
        rank.reducer.reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Three steps in which each rank publishes in an order of its own.
  void ExpectSums(uint32_t ranks) {
    const std::vector<uint32_t> orders[] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    InRanks(ranks, [&](uint32_t r, Rank& rank) {
      for (uint64_t step = 0; step < 3; ++step) {
        rank.Compute(step);
        ASSERT_EQ(rank.Publish(step, orders[(r + step) % 3]), absl::OkStatus());
        ASSERT_EQ(rank.reducer->Drain(), absl::OkStatus());
        const std::vector<float> gradients = rank.Gradients();
        for (uint32_t i = 0; i < kElements; ++i) {
          float expected = Gradient(r, step, i);  // unchanged
          for (uint32_t other = 0; other < ranks && r == i / kChunkElements % ranks; ++other) {
            if (other != r) expected += Gradient(other, step, i);
          }
          ASSERT_EQ(gradients[i], expected) << i << " of rank " << r << " in step " << step;
        }
      }
      EXPECT_THAT(rank.reduced, ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(2, 0),
                                            std::pair(0, 1), std::pair(1, 1), std::pair(2, 1),
                                            std::pair(0, 2), std::pair(1, 2), std::pair(2, 2)));
      EXPECT_EQ(rank.computed, 9);
      EXPECT_EQ(rank.reducer->Finish(), absl::OkStatus());
    });
  }

  proto::Job job_;
  std::atomic<bool> stopped_ = false;
};

TEST_F(NodeReducerTest, AChunksRootHasTheSumOfAllInWhateverOrderTheyPublish) { ExpectSums(3); }

TEST_F(NodeReducerTest, OneRankAloneIsTheRootOfEveryChunk) { ExpectSums(1); }

TEST_F(NodeReducerTest, ATracedStepsSumsAreInTheTraceOfEachRank) {
  job_.mutable_trace()->set_first_step(1);
  job_.mutable_trace()->set_steps(1);
  InRanks(2, [&](uint32_t r, Rank& rank) {
    for (uint64_t step = 0; step < 3; ++step) {
      rank.Compute(step);
      ASSERT_EQ(rank.Publish(step, {2, 0, 1}), absl::OkStatus());
    }
    ASSERT_EQ(rank.reducer->Finish(), absl::OkStatus());
    const auto send = [&](client::AgentChannel* agent) { rank.reducer->SendTrace(agent, true); };
    ExpectTracedSums(SentTrace(send), 3, 1, r);
  });
}

TEST_F(NodeReducerTest, WhatARankHasComputedIsToldBeforeTheOthersHave) {
  std::atomic<bool> told = false;
  InRanks(2, [&](uint32_t r, Rank& rank) {
    const absl::Time deadline = absl::Now() + kDeadline;
    if (r == 1) {
      while (!told && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    }
    rank.Compute(0);
    ASSERT_EQ(rank.Publish(0, {0, 1, 2}), absl::OkStatus());
    if (r == 0) {
      while (rank.computed < 3 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
      EXPECT_EQ(rank.computed, 3);
      EXPECT_THAT(rank.reduced, ElementsAre());
      told = true;
    }
    EXPECT_EQ(rank.reducer->Finish(), absl::OkStatus());
    EXPECT_EQ(rank.reduced.size(), 3u);
  });
}

TEST_F(NodeReducerTest, AGradientThatIsNotFiniteIsItsOwnRanksFault) {
  InRanks(2, [&](uint32_t r, Rank& rank) {
    rank.Compute(0, r == 1 ? NAN : 0);
    ASSERT_EQ(rank.Publish(0, {0, 1, 2}), absl::OkStatus());
    if (r == 0) {
      rank.reducer->Drain().IgnoreError();  // whether or not rank 1 still participates in chunk 2
      return;
    }
    const absl::Status fault = DivergedError("the gradient of chunk 1 is not finite at step 0");
    EXPECT_EQ(rank.reducer->Drain(), fault);
    EXPECT_THAT(rank.reduced, ElementsAre(std::pair(0, 0)));
    EXPECT_EQ(rank.Publish(1, {0}), fault);
    EXPECT_EQ(rank.reducer->Finish(), fault);
    stopped_ = true;
  });
}

TEST_F(NodeReducerTest, ARankWaitsForOneThatPublishesNothingOnlyUntilItIsTold) {
  InRanks(2, [&](uint32_t r, Rank& rank) {
    if (r == 1) return;
    rank.Compute(0);
    ASSERT_EQ(rank.Publish(0, {0, 1, 2}), absl::OkStatus());
    absl::SleepFor(absl::Milliseconds(20));
    stopped_ = true;
    EXPECT_EQ(rank.reducer->Drain(), absl::UnavailableError("the job was stopped"));
    EXPECT_THAT(rank.reduced, ElementsAre());
  });
}

TEST_F(NodeReducerTest, TheProgramEndsAWaitForAnotherRankAndMayWaitAgain) {
  absl::Notification ended;
  InRanks(2, [&](uint32_t r, Rank& rank) {
    rank.Compute(0);
    if (r == 1) ended.WaitForNotificationWithTimeout(kDeadline);
    ASSERT_EQ(rank.Publish(0, {0, 1, 2}), absl::OkStatus());
    rank.interrupts = r == 0;
    if (r == 0) {
      EXPECT_EQ(rank.reducer->Drain(), absl::CancelledError("interrupted"));
      ended.Notify();
    }
    rank.interrupts = false;
    EXPECT_EQ(rank.reducer->Drain(), absl::OkStatus());
    EXPECT_EQ(rank.reducer->Finish(), absl::OkStatus());
  });
}

// Faults that only fake devices can produce.
using NodeReducerOnFake = NodeReducerTest;

TEST_F(NodeReducerOnFake, AnErrorOfTheLibraryIsItsRanksInTheLibrarysWords) {
  // The fourth sum is the second step's first.
  ConfigureTestDevices("devices=4,nccl_fails_rank=1,nccl_fails_at=4");
  InRanks(2, [&](uint32_t r, Rank& rank) {
    rank.Compute(0);
    ASSERT_EQ(rank.Publish(0, {0, 1, 2}), absl::OkStatus());
    ASSERT_EQ(rank.reducer->Drain(), absl::OkStatus());
    rank.Compute(1);
    ASSERT_EQ(rank.Publish(1, {0, 1, 2}), absl::OkStatus());
    const absl::Status status = rank.reducer->Drain();
    if (r == 0) {
      EXPECT_EQ(status, absl::UnavailableError("the job was stopped"));
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("device 1: NCCL: a collective: remote"));
    stopped_ = true;
  });
}

}  // namespace
}  // namespace strata::nccl
