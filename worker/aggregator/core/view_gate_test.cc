#include "worker/aggregator/core/view_gate.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

proto::ViewChange Change(uint32_t number, uint64_t at, const std::vector<uint32_t>& joined) {
  proto::ViewChange change;
  change.set_number(number);
  change.set_at_clock(at);
  for (const uint32_t node : joined) change.add_joined(node);
  return change;
}

// A job of view 1, whose nodes 1 and 2 are absent.
class Gate : public testing::Test {
 protected:
  static Views Begin() {
    proto::JobRecord record;
    record.mutable_view()->set_number(1);
    for (uint32_t node = 0; node < 3; ++node) {
      proto::LogicalNode* const logical = record.mutable_view()->add_nodes();
      logical->set_node(node);
      logical->set_first_rank(node);
      logical->set_ranks(1);
      logical->set_absent(node > 0);
    }
    return *Views::Of(record);
  }
  std::optional<uint64_t> Promise(uint32_t number) {
    return gate_.Promise(number, [this](uint64_t until) {
      until_ = until;
      return told_;
    });
  }

  ViewGate gate_{Begin()};
  uint64_t told_ = 7;
  uint64_t until_ = 0;
};

TEST_F(Gate, IsOpenUntilAChangeIsProposed) {
  EXPECT_EQ(gate_.open_until(), ViewGate::kOpen);
  EXPECT_EQ(Promise(2), 7 + ViewGate::kMargin);
  EXPECT_EQ(gate_.open_until(), 7 + ViewGate::kMargin);
  EXPECT_EQ(until_, gate_.open_until());
}

TEST_F(Gate, PromisesTheSameClockHoweverOftenItIsAsked) {
  EXPECT_EQ(Promise(2), 11u);
  told_ = 10;
  EXPECT_EQ(Promise(2), 11u);
  EXPECT_EQ(Promise(3), 14u) << "of another change";
  EXPECT_EQ(Promise(2), std::nullopt) << "which is old news then";
  EXPECT_EQ(gate_.open_until(), 14u);
}

TEST_F(Gate, OpensOnceTheOutcomeIsKnown) {
  Promise(2);
  ASSERT_TRUE(gate_.Take(Change(2, 13, {1}), told_).ok());
  EXPECT_EQ(gate_.open_until(), ViewGate::kOpen);
  EXPECT_TRUE(gate_.views().Has(NodeId(1), 13));
  Promise(3);
  ASSERT_TRUE(gate_.Take(Change(3, 0, {}), told_).ok()) << "it is given up";
  EXPECT_EQ(gate_.open_until(), ViewGate::kOpen);
  EXPECT_EQ(Promise(3), std::nullopt) << "and comes again with another number only";
  EXPECT_EQ(Promise(2), std::nullopt);
}

TEST_F(Gate, OldNewsOpensNothing) {
  Promise(2);
  const proto::ViewChange first = Change(2, 13, {1});
  ASSERT_TRUE(gate_.Take(first, told_).ok());
  Promise(3);
  ASSERT_TRUE(gate_.Take(first, told_).ok());
  ASSERT_TRUE(gate_.Take(Change(1, 0, {}), told_).ok());
  EXPECT_LT(gate_.open_until(), ViewGate::kOpen);
}

TEST_F(Gate, WhatComesNextLetsWhoHasJoinedMakeAStep) {
  Promise(2);
  ASSERT_TRUE(gate_.Take(Change(2, 100, {1}), told_).ok());
  EXPECT_EQ(Promise(3), 100 + ViewGate::kMargin);
}

TEST_F(Gate, ARankThatGoesOnMeanwhileIsNotHeldBack) {
  int calls = 0;
  const std::optional<uint64_t> from = gate_.Promise(
      2, [&](uint64_t) { return ++calls == 2 ? uint64_t{20} : told_ + (calls > 2 ? 13 : 0); });
  EXPECT_EQ(from, 20 + ViewGate::kMargin);
}

TEST_F(Gate, WithoutAMarginRanksGoNoFurtherThanTheyHaveBeenTold) {
  const auto promise = [this](uint32_t number) {
    return gate_.Promise(
        number, [this](uint64_t) { return told_; }, ViewGate::kNoMargin);
  };
  EXPECT_EQ(promise(2), 7u);
  EXPECT_EQ(gate_.open_until(), 7u);
  told_ = 8;  // of another number
  EXPECT_EQ(promise(3), 8u);
  ASSERT_TRUE(gate_.Take(Change(3, 20, {1}), told_).ok());
  EXPECT_EQ(promise(4), 20u) << "who makes a step is known until there";
  int calls = 0;
  EXPECT_EQ(
      gate_.Promise(
          5, [&](uint64_t) { return uint64_t{++calls < 2 ? 20u : 23u}; }, ViewGate::kNoMargin),
      23u)
      << "a rank has gone on meanwhile";
}

TEST_F(Gate, ClosesAlsoBeforeAnyStepIsBegun) {
  ViewGate gate(Begin());
  EXPECT_EQ(gate.Promise(
                2, [](uint64_t) { return uint64_t{0}; }, ViewGate::kNoMargin),
            1u);
}

TEST_F(Gate, AChangeThatComesTooEarlyIsRefused) {
  Promise(2);
  EXPECT_EQ(gate_.Take(Change(2, 10, {1}), told_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(gate_.open_until(), 11u);
  ViewGate other(Begin());
  EXPECT_EQ(other.Take(Change(2, 6, {1}), told_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(other.Take(Change(2, 7, {1}), told_).ok());
}

}  // namespace
}  // namespace strata::worker
