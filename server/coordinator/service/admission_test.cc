#include "server/coordinator/service/admission.h"

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(Gate, RefusesOneTooManyAndLetsItInOnceAnotherHasLeft) {
  Gate gate("sessions of daemons", "--sessions", 2);
  absl::StatusOr<Gate::Pass> first = gate.Enter("a");
  {
    absl::StatusOr<Gate::Pass> second = gate.Enter("b");
    EXPECT_TRUE(first.ok() && second.ok());
    const absl::Status third = gate.Enter("c").status();
    EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(third.message(),
              "the coordinator has 2 sessions of daemons open, which is its limit (--sessions)");
    EXPECT_EQ(gate.open(), 2u);
  }
  EXPECT_EQ(gate.open(), 1u);
  EXPECT_TRUE(gate.Enter("c").ok());
  EXPECT_EQ(gate.refused(), 1u);
}

TEST(InHand, WhoHasTooMuchInHandWaits) {
  InHand in_hand;
  std::atomic<size_t> added = 0;
  std::thread adder([&] {
    for (size_t i = 0; i <= kInHandPerSessionMax; ++i) {
      in_hand.Add();
      ++added;
    }
  });
  while (added < kInHandPerSessionMax) std::this_thread::yield();
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(added, kInHandPerSessionMax);
  in_hand.Done();
  adder.join();
  EXPECT_EQ(added, kInHandPerSessionMax + 1);
}

TEST(CoordinatorStatus, ShowsWhatIsOpenBesideTheLimits) {
  Gate sessions("sessions of daemons", "--sessions", 7);
  Gate calls("calls", "--calls", 1);
  const absl::StatusOr<Gate::Pass> session = sessions.Enter("a");
  const absl::StatusOr<Gate::Pass> call = calls.Enter("b");
  EXPECT_FALSE(calls.Enter("c").ok());
  const proto::DaemonStatus status = CoordinatorStatus(&sessions, &calls);
  EXPECT_EQ(status.resources(0).name(), "file descriptors");
  EXPECT_GT(status.resources(0).limit(), status.resources(0).used());
  EXPECT_EQ(status.resources(1).ShortDebugString(), "name: \"connections\" used: 1 limit: 7");
  EXPECT_EQ(status.resources(2).ShortDebugString(), "name: \"calls\" used: 1 limit: 1");
  ASSERT_EQ(status.refusals_size(), 1);
  EXPECT_EQ(status.refusals(0).ShortDebugString(), "cause: \"over the limit of calls\" count: 1");
}

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
