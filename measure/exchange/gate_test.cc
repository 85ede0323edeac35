#include "measure/exchange/gate.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace strata::bench {
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

}  // namespace
}  // namespace strata::bench
