#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/bench/figures.h"
#include "cli/bench/gate.h"
#include "cli/bench/gradient_values.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

TEST(GateTest, AStepTakesAsLongAsItsSlowestParticipant) {
  auto gate = Gate::Open(2);
  ASSERT_TRUE(gate.ok()) << gate.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*gate)->port());
  auto go = [&](double first_ms, double second_ms) {
    auto line = GateConnection::Connect(address);
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->Meet({}), absl::OkStatus());
    EXPECT_EQ(line->Meet({.step_ms = first_ms}), absl::OkStatus());
    EXPECT_EQ(line->Meet({.step_ms = second_ms}), absl::OkStatus());
  };
  std::thread other([&] { go(3, 1); });
  go(2, 5);
  other.join();
  EXPECT_EQ((*gate)->steps_ms(), (std::vector<double>{3, 5}));
  EXPECT_TRUE((*gate)->all_right());
}

TEST(GateTest, OneWrongValueOfOneParticipantIsKept) {
  auto gate = Gate::Open(1);
  ASSERT_TRUE(gate.ok()) << gate.status();
  auto line = GateConnection::Connect(absl::StrCat("127.0.0.1:", (*gate)->port()));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->Meet({.step_ms = 1, .wrong = 1}), absl::OkStatus());
  EXPECT_EQ(line->Meet({.step_ms = 1}), absl::OkStatus());
  EXPECT_FALSE((*gate)->all_right());
}

TEST(GateTest, WhatComesAfterAStepIsDoneOnceAllHaveEndedIt) {
  std::vector<int> arrived_then;
  std::atomic<int> arrived = 0;
  auto gate = Gate::Open(2, [&] { arrived_then.push_back(arrived); });
  ASSERT_TRUE(gate.ok()) << gate.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*gate)->port());
  auto go = [&] {
    auto line = GateConnection::Connect(address);
    ASSERT_TRUE(line.ok()) << line.status();
    for (int step = 0; step < 2; ++step) {
      EXPECT_EQ(line->Meet({}), absl::OkStatus());
      ++arrived;
      EXPECT_EQ(line->Meet({.step_ms = 1}), absl::OkStatus());
    }
  };
  std::thread other(go);
  go();
  other.join();
  gate->reset();
  EXPECT_EQ(arrived_then, (std::vector<int>{2, 4}));
}

TEST(GateTest, WhoWaitsForSomebodyThatHasLeftIsTold) {
  auto gate = Gate::Open(2);
  ASSERT_TRUE(gate.ok()) << gate.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*gate)->port());
  auto line = GateConnection::Connect(address);
  ASSERT_TRUE(line.ok()) << line.status();
  { auto leaves = GateConnection::Connect(address); }
  EXPECT_EQ(line->Meet({}).code(), absl::StatusCode::kUnavailable);
}

TEST(GateTest, ItClosesWhilePeopleAreMissing) {
  auto gate = Gate::Open(2);
  ASSERT_TRUE(gate.ok()) << gate.status();
  auto line = GateConnection::Connect(absl::StrCat("127.0.0.1:", (*gate)->port()));
  gate->reset();
  EXPECT_EQ(line->Meet({}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GateConnection::Connect("here").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FiguresTest, MedianAndP99AreStepsThatWereMeasured) {
  std::vector<double> steps;
  for (int i = 200; i >= 1; --i) steps.push_back(i);
  const Figures figures = MakeFigures(steps);
  EXPECT_EQ(figures.min_ms, 1);
  EXPECT_EQ(figures.median_ms, 100);
  EXPECT_EQ(figures.p99_ms, 198);
  EXPECT_EQ(MakeFigures({7}).p99_ms, 7);
  EXPECT_EQ(MakeFigures({}).median_ms, 0);
}

TEST(BoundTest, AServersLinkBindsWhereThereAreFewerServersThanNodes) {
  BoundInput input{.bytes = 1000, .nodes = 4, .servers = 4, .bytes_per_s = 1e6};
  EXPECT_EQ(BoundMs(input), 1);
  input.servers = 8;
  EXPECT_EQ(BoundMs(input), 1);
  input.servers = 2;
  EXPECT_EQ(BoundMs(input), 2);
}

TEST(BoundTest, ARingSendsEverythingButItsOwnShareTwice) {
  BoundInput input{.bytes = 1000, .nodes = 4, .servers = 0, .bytes_per_s = 1e6};
  EXPECT_EQ(BoundMs(input), 1.5);
  input.nodes = 2;
  EXPECT_EQ(BoundMs(input), 1);
}

TEST(BoundTest, OneLoopbackCarriesWhatAllSend) {
  BoundInput input{.bytes = 1000, .nodes = 2, .servers = 1, .bytes_per_s = 1e6};
  input.shares_one_host = true;
  EXPECT_EQ(BoundMs(input), 4);
  input.servers = 0;
  EXPECT_EQ(BoundMs(input), 2);
}

TEST(BoundTest, AnUnknownBandwidthGivesNone) { EXPECT_EQ(BoundMs({.bytes = 1000}), 0); }

TEST(FiguresTest, TheShareOfABoundIsTheMedianOverPairs) {
  EXPECT_EQ(BoundShare({8, 9, 5}, {10, 10, 10}), 0.8);
  EXPECT_EQ(BoundShare({}, {10}), 0);
}

std::vector<float> SumOf(uint32_t ranks, uint64_t step, size_t count) {
  std::vector<float> sum(count), gradient(count);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    FillGradient(rank, step, absl::MakeSpan(gradient));
    for (size_t i = 0; i < count; ++i) sum[i] += gradient[i];
  }
  return sum;
}

TEST(GradientValuesTest, TheSumIsKnownAndNoOtherPassesForIt) {
  for (uint64_t step : {0, 1, 2, 77}) {
    std::vector<float> sum = SumOf(3, step, 1003);
    EXPECT_TRUE(IsGradientSum(3, step, sum));
    EXPECT_FALSE(IsGradientSum(2, step, sum));
    EXPECT_FALSE(IsGradientSum(3, step + 1, sum));
    EXPECT_FALSE(IsGradientSum(3, step + 2, sum));
    sum[1002] += 1;
    EXPECT_FALSE(IsGradientSum(3, step, sum));
  }
}

TEST(GradientValuesTest, WeightsDescendBySumsAndComeBackAfterTwoSteps) {
  std::vector<float> weights(100, 0.5f);
  Descend(4, 6, 0.25f, absl::MakeSpan(weights));
  const std::vector<float> sum = SumOf(4, 6, 100);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(weights[i], 0.5f - 0.25f * sum[i]);
  Descend(4, 7, 0.25f, absl::MakeSpan(weights));
  EXPECT_EQ(weights, std::vector<float>(100, 0.5f));
}

}  // namespace

}  // namespace strata::cli
