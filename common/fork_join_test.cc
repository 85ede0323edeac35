#include "common/fork_join.h"

#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/cores.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

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
