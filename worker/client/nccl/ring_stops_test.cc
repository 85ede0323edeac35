#include "worker/client/nccl/ring_stops.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace strata::nccl {
namespace {

class RingStopsTest : public testing::Test {
 protected:
  std::atomic<uint32_t> asked_ = 0;
  std::vector<RingStops::Answer> answers_;
  RingStops stops_{1, [this] { return asked_.load(); },
                   [this](const RingStops::Answer& answer) { answers_.push_back(answer); }};
};

TEST_F(RingStopsTest, ARankAnswersOnceForEachRingAndThenMakesNoStep) {
  stops_.Begin();
  EXPECT_TRUE(stops_.Make(4));
  EXPECT_EQ(stops_.Check(), absl::OkStatus());
  EXPECT_TRUE(answers_.empty());
  asked_ = 3;
  EXPECT_TRUE(stops_.Make(5)) << "nobody has been told yet";
  EXPECT_EQ(stops_.Check(), absl::AbortedError("stopped for ring 3"));
  EXPECT_EQ(stops_.Check(), absl::AbortedError("stopped for ring 3"));
  EXPECT_TRUE(stops_.is_stopped());
  EXPECT_FALSE(stops_.Make(6));
  EXPECT_FALSE(stops_.End());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].number, 3u);
  EXPECT_EQ(answers_[0].steps, 5u);
  EXPECT_TRUE(answers_[0].has_begun);
  EXPECT_FALSE(answers_[0].is_over);
}

TEST_F(RingStopsTest, ItGoesOnInTheRingThatWasAskedForOrALaterOne) {
  stops_.Begin();
  asked_ = 3;
  EXPECT_TRUE(absl::IsAborted(stops_.Check()));
  EXPECT_FALSE(stops_.Form(2));
  asked_ = 4;
  EXPECT_EQ(stops_.Check(), absl::AbortedError("stopped for ring 4")) << "also between two rings";
  EXPECT_FALSE(stops_.Form(3));
  EXPECT_TRUE(stops_.Form(4));
  EXPECT_EQ(stops_.Check(), absl::OkStatus());
  EXPECT_TRUE(stops_.Make(1));
  EXPECT_TRUE(stops_.End());
  asked_ = 5;
  EXPECT_TRUE(absl::IsAborted(stops_.Check()));
  ASSERT_EQ(answers_.size(), 3u);
  EXPECT_EQ(answers_[2].steps, 1u);
  EXPECT_TRUE(answers_[2].is_over);
  EXPECT_TRUE(stops_.Form(9)) << "the rank may not have heard of those between";
  asked_ = 9;
  EXPECT_EQ(stops_.Check(), absl::OkStatus());
}

TEST_F(RingStopsTest, BeforeItsFirstWeightsARankSaysSoAndWaitsOn) {
  asked_ = 2;
  EXPECT_EQ(stops_.Check(), absl::OkStatus());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_FALSE(answers_[0].has_begun);
  EXPECT_FALSE(stops_.is_stopped());
}

TEST_F(RingStopsTest, WhatWasAnsweredHoldsWhoeverLooksMeanwhile) {
  stops_.Begin();
  std::thread looks([&] {
    while (stops_.Check().ok()) continue;
  });
  uint64_t made = 0;
  while (stops_.Make(made + 1)) {
    if (++made == 1000) asked_ = 2;
  }
  looks.join();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].steps, made);
}

}  // namespace
}  // namespace strata::nccl
