#include "server/coordinator/service/message_queue.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(MessageQueue, GivesMessagesInOrder) {
  MessageQueue<int> queue(10);
  queue.Push(1);
  queue.Push(2);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration()), 1);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration()), 2);
  EXPECT_EQ(queue.Pop(absl::ZeroDuration()), std::nullopt);
  EXPECT_FALSE(queue.IsDone());
}

TEST(MessageQueue, WhatWasQueuedBeforeCloseCanStillBeTaken) {
  MessageQueue<int> queue(10);
  queue.Push(1);
  queue.Close();
  queue.Push(2);
  EXPECT_FALSE(queue.IsDone());
  EXPECT_EQ(queue.Pop(absl::InfiniteDuration()), 1);
  EXPECT_TRUE(queue.IsDone());
  EXPECT_EQ(queue.Pop(absl::InfiniteDuration()), std::nullopt);
}

TEST(MessageQueue, AFullQueueClosesAndDropsWhatItHolds) {
  MessageQueue<int> queue(2);
  queue.Push(1);
  queue.Push(2);
  EXPECT_FALSE(queue.IsDone());
  queue.Push(3);
  EXPECT_TRUE(queue.IsDone());
}

struct Sized {
  size_t bytes = 0;
  size_t ByteSizeLong() const { return bytes; }
};

TEST(MessageQueue, BytesAreBoundedTooButOneMessageIsAlwaysTaken) {
  MessageQueue<Sized> queue(100, 10);
  queue.Push({11});
  EXPECT_EQ(queue.Pop(absl::ZeroDuration())->bytes, 11u);
  queue.Push({4});
  queue.Push({6});
  EXPECT_EQ(queue.Pop(absl::ZeroDuration())->bytes, 4u);
  queue.Push({4});
  EXPECT_FALSE(queue.IsDone());
  queue.Push({1});
  EXPECT_TRUE(queue.IsDone());
}

}  // namespace
}  // namespace strata::server
