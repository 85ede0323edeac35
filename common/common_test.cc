#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/buffer_pool.h"
#include "common/clock.h"
#include "common/closure_queue.h"
#include "common/cores.h"
#include "common/event_fd.h"
#include "common/fork_join.h"
#include "common/random.h"
#include "common/require.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock(absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101500));
}

TEST(RealClock, MovesOnAndTellsTheTimeOfDay) {
  const RealClock clock;
  const absl::Time first = clock.Now();
  absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GT(clock.Now(), first);
  EXPECT_LT(absl::AbsDuration(clock.Now() - absl::Now()), absl::Minutes(1));
}

TEST(Random, MixesAsSplitMix64Does) {
  // The first outputs of the published generator for the seed 0.
  EXPECT_EQ(MixBits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(MixBits(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  std::vector<int> bins(10);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const float x = RandomUniform(RandomKey(7, 1), i);
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    sum += x;
    ++bins[static_cast<int>(x * 10)];
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  for (int count : bins) EXPECT_NEAR(count, 10000, 500);
}

TEST(Random, StreamsAndSeedsDiffer) {
  EXPECT_NE(RandomKey(1, 2), RandomKey(2, 1));
  EXPECT_NE(RandomKey(1, 2), RandomKey(1, 3));
  EXPECT_NE(RandomBits(RandomKey(1, 2), 0), RandomBits(RandomKey(1, 3), 0));
}

TEST(Random, BelowReachesEveryValueAndNoOther) {
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) {
    const uint64_t x = RandomBelow(5, i, 7);
    ASSERT_LT(x, 7u);
    ++seen[x];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

bool IsReadable(int fd) {
  pollfd item = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&item, 1, 0) == 1;
}

TEST(EventFd, IsReadableFromNotifyToDrain) {
  absl::StatusOr<EventFd> event = EventFd::Create();
  ASSERT_TRUE(event.ok());
  EXPECT_FALSE(IsReadable(event->fd()));
  EXPECT_FALSE(event->Drain());
  event->Notify();
  event->Notify();
  EXPECT_TRUE(IsReadable(event->fd()));
  EXPECT_TRUE(event->Drain());
  EXPECT_FALSE(IsReadable(event->fd()));
  EXPECT_FALSE(event->Drain());
}

TEST(EventFd, RingsThroughACopyOfTheDescriptor) {
  absl::StatusOr<EventFd> event = EventFd::Create();
  ASSERT_TRUE(event.ok());
  const EventFd copy = EventFd::Adopt(UniqueFd(dup(event->fd())));
  copy.Notify();
  EXPECT_TRUE(event->Drain());
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  absl::StatusOr<EventFd> event = EventFd::Create();
  ASSERT_TRUE(event.ok());
  UniqueFd first(dup(event->fd()));
  const int number = first.get();
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), number);
  EXPECT_EQ(fcntl(number, F_GETFD) >= 0, true);
  second.Reset();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(RequireTest, AConditionThatHoldsIsEvaluatedOnceAndNothingElseHappens) {
  int evaluated = 0;
  STRATA_REQUIRE(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(RequireDeathTest, AConditionThatDoesNotHoldAbortsWithItsTextAndPlace) {
  const int shards = 0;
  EXPECT_DEATH(STRATA_REQUIRE(shards > 0),
               "common/common_test.cc:[0-9]+: requirement failed: shards > 0");
}

TEST(BufferPool, BuffersAreAlignedTo64Bytes) {
  BufferPool pool;
  for (const size_t bytes : {0, 1, 63, 64, 65, 4096, 1 << 20}) {
    const std::shared_ptr<std::byte> buffer = pool.AllocateBytes(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 64, 0) << bytes;
    std::memset(buffer.get(), 1, bytes);
  }
}

TEST(BufferPool, AFreedBufferIsHandedOutAgain) {
  BufferPool pool;
  std::shared_ptr<float> buffer = pool.AllocateFloats(1000);
  const float* address = buffer.get();
  EXPECT_EQ(pool.retained_bytes(), 0);
  buffer.reset();
  EXPECT_EQ(pool.retained_bytes(), 4032);
  buffer = pool.AllocateFloats(1000);
  EXPECT_EQ(buffer.get(), address);
  EXPECT_EQ(pool.retained_bytes(), 0);
}

TEST(BufferPool, AnotherSizeGetsAnotherBuffer) {
  BufferPool pool;
  pool.AllocateBytes(4096);
  const std::shared_ptr<std::byte> larger = pool.AllocateBytes(8192);
  std::memset(larger.get(), 1, 8192);
  EXPECT_EQ(pool.retained_bytes(), 4096);
}

TEST(BufferPool, NoMoreThanTheLimitIsRetained) {
  BufferPool pool(8192);
  std::vector<std::shared_ptr<std::byte>> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(pool.AllocateBytes(4096));
  buffers.clear();
  EXPECT_EQ(pool.retained_bytes(), 8192);
}

TEST(BufferPool, MoreIsRetainedWhileSomebodyWantsIt) {
  BufferPool pool(4096);
  const auto use = [&pool] {
    std::vector<std::shared_ptr<std::byte>> buffers;
    for (int i = 0; i < 5; ++i) buffers.push_back(pool.AllocateBytes(4096));
  };
  std::shared_ptr<void> more = pool.RetainMore(3 * 4096);
  use();
  EXPECT_EQ(pool.retained_bytes(), 4 * 4096);
  EXPECT_EQ(pool.allocated_bytes(), 4 * 4096);
  const std::shared_ptr<void> one_more = pool.RetainMore(4096);
  use();
  EXPECT_EQ(pool.retained_bytes(), 5 * 4096);
  more.reset();
  EXPECT_EQ(pool.retained_bytes(), 2 * 4096);
  EXPECT_EQ(pool.allocated_bytes(), 2 * 4096);
  use();
  EXPECT_EQ(pool.retained_bytes(), 2 * 4096);
}

TEST(BufferPool, WhatIsRetainedInAdditionMayOutliveThePool) {
  auto pool = std::make_unique<BufferPool>();
  std::shared_ptr<void> more = pool->RetainMore(4096);
  pool->AllocateBytes(4096);
  pool.reset();
  more.reset();
}

TEST(BufferPool, BuffersMayOutliveThePool) {
  auto pool = std::make_unique<BufferPool>();
  std::shared_ptr<float> buffer = pool->AllocateFloats(100);
  const Bytes bytes = AsBytes(buffer, 100);
  pool.reset();
  buffer.get()[99] = 7;
  buffer.reset();
  EXPECT_EQ(bytes.size(), 400);
  EXPECT_EQ(bytes.floats()[99], 7);
}

TEST(BufferPool, ThreadsShareIt) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const std::shared_ptr<std::byte> buffer = pool.AllocateBytes(256);
        std::memset(buffer.get(), t, 256);
        for (int at = 0; at < 256; ++at) EXPECT_EQ(static_cast<int>(buffer.get()[at]), t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool.retained_bytes(), 4 * 256);
}

TEST(ClosureQueue, RunsInOrderOfPosting) {
  ClosureQueue queue(nullptr);
  std::vector<int> ran;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(queue.Post([&ran, i] { ran.push_back(i); }).ok());
  EXPECT_EQ(queue.RunAll(), 5);
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(queue.RunAll(), 0);
}

TEST(ClosureQueue, WhatAClosurePostsWaitsForTheNextRun) {
  ClosureQueue queue(nullptr);
  int ran = 0;
  ASSERT_TRUE(queue
                  .Post([&] {
                    ++ran;
                    EXPECT_TRUE(queue.Post([&] { ++ran; }).ok());
                  })
                  .ok());
  EXPECT_EQ(queue.RunAll(), 1);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(queue.RunAll(), 1);
  EXPECT_EQ(ran, 2);
}

TEST(ClosureQueue, WakesTheOwnerWhenItStopsBeingEmpty) {
  int wakes = 0;
  ClosureQueue queue([&] { ++wakes; });
  ASSERT_TRUE(queue.Post([] {}).ok());
  ASSERT_TRUE(queue.Post([] {}).ok());
  EXPECT_EQ(wakes, 1);
  queue.RunAll();
  ASSERT_TRUE(queue.Post([] {}).ok());
  EXPECT_EQ(wakes, 2);
}

TEST(ClosureQueue, RefusesWhenFullAndTakesAgainAfterwards) {
  ClosureQueue queue(nullptr, 2);
  ASSERT_TRUE(queue.Post([] {}).ok());
  ASSERT_TRUE(queue.Post([] {}).ok());
  EXPECT_EQ(queue.Post([] {}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue.RunAll(), 2);
  EXPECT_TRUE(queue.Post([] {}).ok());
}

TEST(ClosureQueue, RefusesAfterCloseButStillRunsWhatWasPosted) {
  ClosureQueue queue(nullptr);
  bool has_run = false;
  ASSERT_TRUE(queue.Post([&] { has_run = true; }).ok());
  queue.Close();
  EXPECT_EQ(queue.Post([] {}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(queue.RunAll(), 1);
  EXPECT_TRUE(has_run);
}

TEST(ClosureQueue, DestroysWhatNeverRan) {
  auto held = std::make_shared<int>(1);
  {
    ClosureQueue queue(nullptr);
    ASSERT_TRUE(queue.Post([held] {}).ok());
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ClosureQueue, TakesMoveOnlyClosuresFromManyThreads) {
  ClosureQueue queue(nullptr);
  constexpr int kThreads = 4, kPosts = 1000;
  int sum = 0;  // of the owner's thread
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        auto one = std::make_unique<int>(1);
        EXPECT_TRUE(queue.Post([&sum, one = std::move(one)] { sum += *one; }).ok());
      }
    });
  }
  size_t ran = 0;
  while (ran < kThreads * kPosts) ran += queue.RunAll();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * kPosts);
}

TEST(CoresTest, AQuotaCountsAsCoresRoundedUpAndWithoutOneThereIsNoLimit) {
  EXPECT_EQ(CoresOfQuota("200000 100000\n"), 2u);
  EXPECT_EQ(CoresOfQuota("150000 100000\n"), 2u);
  EXPECT_EQ(CoresOfQuota("1000 100000\n"), 1u);
  for (const char* none : {"max 100000\n", "", "100000 0\n", "-1 100000\n", "words\n"}) {
    EXPECT_EQ(CoresOfQuota(none), UINT32_MAX) << none;
  }
  EXPECT_GE(UsableCores(), 1u);
  EXPECT_LE(UsableCores(), AllowedProcessors());
}

TEST(ForkJoinTest, EveryPartIsDoneOnceBeforeRunReturns) {
  for (uint32_t threads : {0, 1, 3}) {
    ForkJoin helpers(threads);
    for (uint32_t parts : {0, 1, 2, 7, 100}) {
      for (int run = 0; run < 200; ++run) {
        std::vector<uint32_t> done(parts, 0);
        helpers.Run(parts, threads, [&](uint32_t part) { ++done[part]; });
        ASSERT_EQ(done, std::vector<uint32_t>(parts, 1)) << threads << " helpers";
      }
    }
  }
}

TEST(ForkJoinTest, AHelperWorksWhileTheCallerIsBusyWithAPart) {
  ForkJoin helpers(1);
  absl::Notification one, other;
  // Each part ends only when the other has begun: one thread alone would wait forever.
  helpers.Run(2, 1, [&](uint32_t part) {
    (part == 0 ? one : other).Notify();
    (part == 0 ? other : one).WaitForNotification();
  });
}

TEST(ForkJoinTest, WithNoHelperWantedTheCallerDoesAll) {
  ForkJoin helpers(2);
  std::vector<std::thread::id> done(10);
  helpers.Run(10, 0, [&](uint32_t part) { done[part] = std::this_thread::get_id(); });
  EXPECT_EQ(done, std::vector<std::thread::id>(10, std::this_thread::get_id()));
}

TEST(ForkJoinTest, WhereThereAreNoMoreThreadsTheCallerDoesAll) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 48), 0);  // more than can be mapped
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  ForkJoin helpers(3);
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_EQ(helpers.helpers(), 0);
  std::vector<uint32_t> done(7, 0);
  helpers.Run(7, 3, [&](uint32_t part) { ++done[part]; });
  EXPECT_EQ(done, std::vector<uint32_t>(7, 1));
}

TEST(ForkJoinTest, SleepingHelpersWakeForTheNextRunAndForTheEnd) {
  ForkJoin helpers(3);
  for (int run = 0; run < 5; ++run) {
    std::atomic<int> sum = 0;
    helpers.Run(50, 3, [&](uint32_t part) { sum += static_cast<int>(part); });
    EXPECT_EQ(sum, 1225);
    absl::Notification never;
    never.WaitForNotificationWithTimeout(absl::Milliseconds(3));
  }
}

}  // namespace
}  // namespace strata
