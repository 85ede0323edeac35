// Ranks as threads that go on without those that die, against the CPU's kernels.
#include <algorithm>
#include <cmath>
#include <cstdint>
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
#include "gtest/gtest.h"
#include "worker/client/nccl/device_steps.h"
#include "worker/client/nccl/device_steps_fixture.h"

namespace strata::nccl {
namespace {

using Ranks = std::vector<uint32_t>;

// Samples of a rank in a step.
uint32_t SamplesOf(uint32_t rank) { return 4 + rank; }

// What one CPU makes of steps that have the gradients of these ranks.
std::vector<float> Made(const proto::Job& job, const std::vector<Ranks>& steps) {
  std::vector<StepSamples> samples(steps.size());
  for (size_t step = 0; step < steps.size(); ++step) {
    for (const uint32_t rank : steps[step]) samples[step][rank] = SamplesOf(rank);
  }
  return ExpectedOf(job, samples);
}

// Plays who decides which ranks go on: they are asked to stop, and told of the next ring.
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
  // Asks these, and returns how many steps each of them has made.
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
  // The newest one, once it is the one that ranks have stopped for. None in a minute: number 0.
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
  // A rank that repeats what was stopped in a ring in the next one.
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

  // Each on a thread of its own, with what they train from the first weights on.
  void Train(uint32_t ranks, const std::function<void(Rank&)>& body) {
    InRanks(ranks, [&](uint32_t r, const std::string& id) {
      Rank rank(&rings_, r);
      rank.steps = Begun(job_, id, ranks, r, nullptr, false, &rank.stops);
      rank.stops.Begin();
      body(rank);
    });
  }

  // Skips where ranks are too few, before anybody waits for them.
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
      // Its gradients of a part of the step have come.
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
    // Its end would abort what the others still add up.
    if (rank.number == 2) return ahead.WaitForNotification();
    if (rank.number == 1) {
      ASSERT_EQ(rank.Await(), absl::OkStatus());
      // The next step has begun here; its gradients lie where those of the one before did.
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
    rings_.Form(2, {0, 1});  // to which 1 never comes
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
      // It comes to the ring, and says how far it is; then nothing of it comes any more.
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
      EXPECT_EQ(status,
                absl::InvalidArgumentError("the gradient of chunk 1 is not finite at step 1"));
      EXPECT_EQ(Weights(*rank.steps), Made(job_, {{0, 1}}));
    }
    done.Block();
  });
}

}  // namespace
}  // namespace strata::nccl
