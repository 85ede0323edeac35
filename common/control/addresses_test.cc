#include "common/control/addresses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::control {
namespace {

using ::testing::ElementsAre;

TEST(Addresses, AListHasPartsAndASocketsPathIsOneWhateverIsInIt) {
  EXPECT_THAT(SplitAddresses("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(SplitAddresses("a:1,[::1]:2,c:3"), ElementsAre("a:1", "[::1]:2", "c:3"));
  EXPECT_THAT(SplitAddresses("unix:/a,b:1"), ElementsAre("unix:/a,b:1"));
}

TEST(Addresses, WhatAStandbySaysIsUnderstoodAndOtherReasonsAreNot) {
  EXPECT_EQ(StandbyText("a:1"), "a:1 leads");
  EXPECT_EQ(LeaderIn(StandbyText("a:1")), "a:1");
  EXPECT_TRUE(IsStandbyText(StandbyText("a:1")));
  EXPECT_EQ(StandbyText(""), "nobody leads yet");
  EXPECT_TRUE(IsStandbyText(StandbyText("")));
  EXPECT_EQ(LeaderIn(StandbyText("")), std::nullopt);
  for (const char* other : {"", " leads", "connection refused", "the way leads", "a:1 leads on"}) {
    EXPECT_FALSE(IsStandbyText(other)) << other;
    EXPECT_EQ(LeaderIn(other), std::nullopt) << other;
  }
}

TEST(Addresses, AnEarlierEpochWasDeposedAndNoEpochIsOlderThanNone) {
  EXPECT_FALSE(WasDeposed(0, 0));
  EXPECT_FALSE(WasDeposed(7, 0));
  EXPECT_FALSE(WasDeposed(7, 7));
  EXPECT_FALSE(WasDeposed(8, 7));
  EXPECT_TRUE(WasDeposed(6, 7));
  EXPECT_TRUE(WasDeposed(0, 7));
}

TEST(AddressRound, OneAddressIsTriedAgainAfterAPauseEachTime) {
  AddressRound round("a:1");
  EXPECT_TRUE(round.is_one());
  EXPECT_TRUE(round.OnFailed("connection refused"));
  EXPECT_EQ(round.current(), "a:1");
  EXPECT_EQ(round.Reasons(), "connection refused");
  EXPECT_TRUE(round.OnFailed(""));
  EXPECT_EQ(round.Reasons(), "connection refused") << "the newest that is known";
  EXPECT_TRUE(round.OnFailed("b:1 leads"));
  EXPECT_EQ(round.current(), "a:1") << "whom it names is none of ours";
}

TEST(AddressRound, SeveralAreTriedOneAfterTheOtherBeforeAPause) {
  AddressRound round("a:1,b:1,c:1");
  EXPECT_EQ(round.current(), "a:1");
  EXPECT_FALSE(round.OnFailed("x"));
  EXPECT_EQ(round.current(), "b:1");
  EXPECT_FALSE(round.OnFailed("y"));
  EXPECT_EQ(round.current(), "c:1");
  EXPECT_TRUE(round.OnFailed("z"));
  EXPECT_EQ(round.current(), "a:1");
  EXPECT_EQ(round.Reasons(), "a:1: x; b:1: y; c:1: z");
  EXPECT_FALSE(round.knows_standby());
}

TEST(AddressRound, WhoIsSaidToLeadIsTriedNextAndNobodyTwiceInARound) {
  AddressRound round("a:1,b:1,c:1");
  EXPECT_FALSE(round.OnFailed("c:1 leads"));
  EXPECT_EQ(round.current(), "c:1");
  EXPECT_FALSE(round.OnFailed("a:1 leads")) << "who was tried waits for the next round";
  EXPECT_EQ(round.current(), "b:1");
  EXPECT_TRUE(round.OnFailed("c:1 leads"));
  EXPECT_EQ(round.current(), "c:1") << "the next round begins with the newest word";
  EXPECT_TRUE(round.knows_standby());
  EXPECT_FALSE(round.OnFailed("connection refused"));
  EXPECT_EQ(round.current(), "a:1");
}

TEST(AddressRound, ARoundWithoutAStandbyKnowsNone) {
  AddressRound round("a:1,b:1");
  EXPECT_FALSE(round.OnFailed("nobody leads yet"));
  EXPECT_TRUE(round.OnFailed("x"));
  EXPECT_TRUE(round.knows_standby());
  EXPECT_FALSE(round.OnFailed("x"));
  EXPECT_TRUE(round.OnFailed("x"));
  EXPECT_FALSE(round.knows_standby());
}

TEST(AddressRound, WhoServedIsTheFirstOfTheNextRound) {
  AddressRound round("a:1,b:1");
  EXPECT_FALSE(round.OnFailed("b:1 leads"));
  round.OnServed();
  EXPECT_EQ(round.current(), "b:1");
  EXPECT_EQ(round.Reasons(), "");
  EXPECT_FALSE(round.OnFailed("broken"));
  EXPECT_EQ(round.current(), "a:1");
  EXPECT_TRUE(round.OnFailed("broken"));
}

}  // namespace
}  // namespace strata::control
