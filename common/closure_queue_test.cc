#include "common/closure_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

namespace strata {
namespace {

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

}  // namespace
}  // namespace strata
