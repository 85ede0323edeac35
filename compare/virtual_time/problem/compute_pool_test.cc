#include "compare/virtual_time/problem/compute_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace strata::compare {
namespace {

using ::testing::Each;

// With ThreadSanitizer: what a thread has written is the owner's once Wait returns, also where the
// task was done before the owner looked.
TEST(ComputePool, WhatATaskHasWrittenIsThereOnceItWasWaitedFor) {
  for (const uint32_t threads : {1, 2, 3}) {
    ComputePool pool(threads);
    std::vector<int> written(1000, 0);
    std::vector<ComputePool::Ticket> tickets;
    for (int& value : written) {
      tickets.push_back(pool.Add([&value](ComputePool::Worker*) { ++value; }));
    }
    pool.Wait(tickets.back());
    for (size_t i = 0; i < written.size(); ++i) {
      pool.Wait(tickets[i]);
      EXPECT_EQ(written[i], 1) << i << " with " << threads << " threads";
    }
  }
}

TEST(ComputePool, TasksBeginInTheOrderInWhichTheyWereAskedFor) {
  ComputePool pool(1);
  std::vector<int> order;
  std::vector<ComputePool::Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(pool.Add([&order, i](ComputePool::Worker*) { order.push_back(i); }));
  }
  pool.Wait(tickets[1]);
  EXPECT_EQ(order, std::vector<int>({0, 1}));
  pool.Wait(tickets[2]);
  EXPECT_EQ(order, std::vector<int>({0, 1, 2}));
}

TEST(ComputePool, WhatHasNotBegunIsDropped) {
  int done = 0;
  {
    ComputePool pool(1);
    for (int i = 0; i < 3; ++i) pool.Add([&done](ComputePool::Worker*) { ++done; });
  }
  EXPECT_EQ(done, 0);
}

TEST(ComputePool, AThreadKeepsItsBuffersFromTaskToTask) {
  ComputePool pool(1);
  pool.Add([](ComputePool::Worker* worker) { worker->images.assign(4, 1.5f); });
  std::vector<float> seen;
  pool.Wait(pool.Add([&seen](ComputePool::Worker* worker) { seen = worker->images; }));
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_THAT(seen, Each(1.5f));
}

}  // namespace
}  // namespace strata::compare
