// Ranks as threads on the fake devices, each with a stream that sums are queued in.
#include "worker/client/nccl/reduce_trace.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/fake_cuda/control.h"
#include "worker/client/nccl/sent_trace.h"

namespace strata::nccl {
namespace {

constexpr uint32_t kElements = 100;
constexpr uint32_t kChunks = 3;
constexpr absl::Duration kDeadline = absl::Minutes(2);

proto::Job TracedJob(uint64_t first_step, uint32_t steps) {
  proto::Job job;
  job.mutable_trace()->set_first_step(first_step);
  job.mutable_trace()->set_steps(steps);
  return job;
}

struct Rank {
  Rank(uint32_t rank, uint32_t ranks, const std::string& id, const proto::Job& job) {
    device = (*cuda::FindDevices())->Use(rank).value();
    values = device->Allocate(kElements * sizeof(float), "a test").value();
    stream = device->NewStream(false).value();
    EXPECT_EQ(stream->Fill(values.get(), 0, kElements * sizeof(float)), absl::OkStatus());
    communicator = device->NewCommunicator(id, ranks, rank, Wanted()).value();
    auto made = ReduceTrace::Create(job, device, stream.get());
    EXPECT_TRUE(made.ok()) << made.status();
    trace = *std::move(made);
  }
  ~Rank() {
    communicator->Abort();
    stream->Synchronize().IgnoreError();
  }

  static device::StillWanted Wanted() {
    return [until = absl::Now() + kDeadline] {
      return absl::Now() > until ? absl::DeadlineExceededError("") : absl::OkStatus();
    };
  }
  absl::Status AllReduce() {
    auto* const at = reinterpret_cast<float*>(values.get());
    return communicator->AllReduce(*stream, at, at, kElements, Wanted());
  }
  void Step(uint64_t step) {
    for (uint32_t c = 0; c < kChunks; ++c) {
      ASSERT_EQ(ReduceTrace::Queue(trace.get(), ChunkId(c), step, [this] { return AllReduce(); }),
                absl::OkStatus());
    }
    ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  }
  std::vector<proto::TraceEvent> Sent(bool all = true) {
    return SentTrace([&](client::AgentChannel* agent) { trace->Send(agent, all); });
  }

  std::shared_ptr<device::Device> device;
  device::Memory values;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<device::Communicator> communicator;
  std::unique_ptr<ReduceTrace> trace;
};

class ReduceTraceTest : public testing::Test {
 protected:
  ReduceTraceTest() { fake_cuda::Configure({.devices = 2, .memory_bytes = 16 << 20}); }
  ~ReduceTraceTest() override { fake_cuda::Configure({}); }

  static void InRanks(const proto::Job& job, const std::function<void(uint32_t, Rank&)>& body) {
    const std::string id = (*cuda::FindDevices())->Use(0).value()->NewCommunicatorId().value();
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        Rank rank(r, 2, id, job);
        body(r, rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(ReduceTraceTest, HasTheSumsOfTracedStepsAndOfNoOthers) {
  InRanks(TracedJob(1, 1), [](uint32_t r, Rank& rank) {
    rank.Step(0);
    const absl::Time before = absl::Now();
    rank.Step(1);
    rank.Step(2);
    rank.trace->Stop();
    const absl::Time after = absl::Now();
    const std::vector<proto::TraceEvent> events = rank.Sent();
    ExpectTracedSums(events, kChunks, 1, r);
    ASSERT_FALSE(events.empty());
    EXPECT_GE(events.front().start_us(), static_cast<uint64_t>(absl::ToUnixMicros(before)));
    EXPECT_LE(events.back().start_us() + events.back().duration_us(),
              static_cast<uint64_t>(absl::ToUnixMicros(after)));
    EXPECT_TRUE(rank.Sent().empty()) << "each once";
  });
}

TEST_F(ReduceTraceTest, ASumLastsFromItsTurnInTheStreamUntilTheOthersHaveComeAndItIsMade) {
  absl::Notification waits;
  absl::Time since;
  int64_t waited_us = 0, lasted_us = 0;
  InRanks(TracedJob(0, 1), [&](uint32_t r, Rank& rank) {
    if (r == 1) {
      ASSERT_TRUE(waits.WaitForNotificationWithTimeout(kDeadline));
      absl::SleepFor(absl::Milliseconds(20));
      waited_us = absl::ToInt64Microseconds(absl::Now() - since);
    }
    const absl::Status status = ReduceTrace::Queue(rank.trace.get(), ChunkId(0), 0, [&] {
      if (r == 0) {  // the sum's beginning has passed in its stream
        EXPECT_EQ(rank.stream->Synchronize(), absl::OkStatus());
        since = absl::Now();
        waits.Notify();
      }
      return rank.AllReduce();
    });
    ASSERT_EQ(status, absl::OkStatus());
    ASSERT_EQ(rank.stream->Synchronize(), absl::OkStatus());
    rank.trace->Stop();
    const std::vector<proto::TraceEvent> events = rank.Sent();
    ExpectTracedSums(events, 1, 0, r);
    if (r == 0 && !events.empty()) lasted_us = events[0].duration_us();
  });
  EXPECT_GE(waited_us, 20'000);
  EXPECT_GE(lasted_us, waited_us - 2);
}

TEST_F(ReduceTraceTest, IsHandedOnWhileTheJobRunsOnceNoMoreIsToCome) {
  InRanks(TracedJob(0, 1), [](uint32_t r, Rank& rank) {
    rank.Step(0);
    EXPECT_TRUE(rank.Sent(/*all=*/false).empty()) << "not worth a message";
    rank.Step(1);
    std::vector<proto::TraceEvent> events;
    const absl::Time deadline = absl::Now() + kDeadline;
    while (events.size() < kChunks && absl::Now() < deadline) {
      for (proto::TraceEvent& event : rank.Sent(/*all=*/false)) events.push_back(event);
      absl::SleepFor(absl::Milliseconds(1));
    }
    ExpectTracedSums(events, kChunks, 0, r);
  });
}

TEST_F(ReduceTraceTest, ItsEndWaitsForNoSum) {
  InRanks(TracedJob(0, 1), [](uint32_t r, Rank& rank) {
    if (r == 1) return;
    ASSERT_EQ(ReduceTrace::Queue(rank.trace.get(), ChunkId(0), 0, [&] { return rank.AllReduce(); }),
              absl::OkStatus());
    rank.trace->Stop();
    EXPECT_TRUE(rank.Sent().empty());
  });
}

TEST_F(ReduceTraceTest, WithoutATraceNoEventIsTimed) {
  const uint64_t made = fake_cuda::TimedEvents();
  InRanks(proto::Job(), [](uint32_t, Rank& rank) {
    EXPECT_EQ(rank.trace, nullptr);
    rank.Step(0);
  });
  EXPECT_EQ(fake_cuda::TimedEvents(), made);
}

}  // namespace
}  // namespace strata::nccl
