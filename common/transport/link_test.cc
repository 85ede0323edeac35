#include "common/transport/link.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using transport::ConnectionId;
using Kind = WireAction::Kind;
using ::testing::ElementsAre;

const absl::Status kRefused = absl::UnavailableError("refused");

class ReconnectorTest : public ::testing::Test {
 protected:
  static LinkTiming Timing() {
    return {.hello_timeout = absl::Seconds(5),
            .backoff_min = absl::Milliseconds(50),
            .backoff_max = absl::Milliseconds(150),
            .give_up_after = absl::Seconds(30)};
  }
  // Actions since the last call.
  std::vector<Kind> Wanted() {
    std::vector<Kind> kinds;
    for (const WireAction& action : actions_) kinds.push_back(action.kind);
    actions_.clear();
    return kinds;
  }
  // Advances time to the next deadline; returns how far.
  absl::Duration ToDeadline() {
    const absl::Duration passes = link_.deadline() - now_;
    now_ += passes;
    status_ = link_.OnTime(now_, &actions_);
    return passes;
  }
  void ComeUp() {
    link_.OnConnected(ConnectionId(1), now_);
    link_.OnGreeted(&actions_);
  }

  absl::Time now_ = absl::UnixEpoch();
  WireActions actions_;
  absl::Status status_;
  Reconnector link_{LinkId(3), Timing(), Reconnector::Role::kConnects,
                    "server s could not be reached"};
};

TEST_F(ReconnectorTest, ConnectsAtOnceAndIsUpOnceGreeted) {
  link_.Start(now_, &actions_);
  ASSERT_EQ(actions_.size(), 1u);
  EXPECT_EQ(actions_[0].link, LinkId(3));
  EXPECT_THAT(Wanted(), ElementsAre(Kind::kConnect));
  link_.OnConnected(ConnectionId(1), now_);
  EXPECT_TRUE(link_.is_greeting());
  EXPECT_TRUE(link_.Owns(ConnectionId(1)));
  EXPECT_TRUE(Wanted().empty()) << "nobody is admitted yet";
  link_.OnGreeted(&actions_);
  ASSERT_EQ(actions_.size(), 1u);
  EXPECT_EQ(actions_[0].connection, ConnectionId(1));
  EXPECT_THAT(Wanted(), ElementsAre(Kind::kAdmit));
  EXPECT_TRUE(link_.is_up());
  EXPECT_EQ(link_.deadline(), absl::InfiniteFuture());
  EXPECT_EQ(link_.down_since(), absl::InfiniteFuture());
}

TEST_F(ReconnectorTest, WaitsTwiceAsLongBeforeEachConnectionUpToTheBound) {
  link_.Start(now_, &actions_);
  for (const int expected_ms : {50, 100, 150, 150}) {
    Wanted();
    link_.OnLost(kRefused, now_, &actions_);
    EXPECT_TRUE(Wanted().empty());
    EXPECT_EQ(ToDeadline(), absl::Milliseconds(expected_ms));
    EXPECT_THAT(Wanted(), ElementsAre(Kind::kConnect));
  }
}

TEST_F(ReconnectorTest, WaitsTheLeastAgainAfterALinkThatWasUp) {
  link_.Start(now_, &actions_);
  link_.OnLost(kRefused, now_, &actions_);
  link_.OnLost(kRefused, now_, &actions_);
  ComeUp();
  Wanted();
  link_.OnLost(kRefused, now_, &actions_);
  EXPECT_THAT(Wanted(), ElementsAre(Kind::kClose));
  EXPECT_EQ(ToDeadline(), absl::Milliseconds(50));
}

TEST_F(ReconnectorTest, AConnectionOnWhichNobodyConfirmsHelloIsGivenUp) {
  link_.Start(now_, &actions_);
  link_.OnConnected(ConnectionId(1), now_);
  Wanted();
  EXPECT_EQ(ToDeadline(), absl::Seconds(5));
  EXPECT_EQ(status_, absl::OkStatus());
  EXPECT_THAT(Wanted(), ElementsAre(Kind::kClose));
  EXPECT_FALSE(link_.Owns(ConnectionId(1)));
  LinkActivity activity;
  link_.Describe(now_, &activity);
  EXPECT_EQ(activity.error, "no answer to HELLO");
  EXPECT_EQ(activity.down_for, absl::Seconds(5));
}

TEST_F(ReconnectorTest, APeerIsGivenUpAfterTooLongNamingTheLastCause) {
  link_.Start(now_, &actions_);
  while (status_.ok()) {
    link_.OnLost(kRefused, now_, &actions_);
    ToDeadline();
  }
  EXPECT_EQ(now_ - absl::UnixEpoch(), absl::Seconds(30));
  EXPECT_EQ(status_, absl::UnavailableError("server s could not be reached for 30s (refused)"));
}

TEST_F(ReconnectorTest, TheTimeWithoutALinkCountsFromItsLoss) {
  link_.Start(now_, &actions_);
  ComeUp();
  now_ += absl::Hours(1);
  EXPECT_EQ(link_.OnTime(now_, &actions_), absl::OkStatus());
  link_.OnLost(kRefused, now_, &actions_);
  EXPECT_EQ(link_.down_since(), now_);
  ToDeadline();  // connects, and hears nothing of it
  EXPECT_EQ(link_.deadline(), link_.down_since() + absl::Seconds(30));
}

TEST_F(ReconnectorTest, APeerThatMayBeGoneIsNeverGivenUp) {
  link_.Start(now_, &actions_);
  link_.NeverGiveUp();
  now_ += absl::Hours(1);
  EXPECT_EQ(link_.OnTime(now_, &actions_), absl::OkStatus());
}

TEST_F(ReconnectorTest, TheEndThatIsConnectedToAsksForNothingAndTakesTheNewestConnection) {
  Reconnector link(LinkId(0), Timing(), Reconnector::Role::kIsConnectedTo,
                   "node 1 has not connected");
  link.Start(now_, &actions_);
  link.OnLost(kRefused, now_, &actions_);
  EXPECT_EQ(link.deadline(), now_ + absl::Seconds(30));
  EXPECT_TRUE(Wanted().empty());
  link.Adopt(ConnectionId(5), &actions_);
  link.OnGreeted(&actions_);
  EXPECT_THAT(Wanted(), ElementsAre(Kind::kAdmit));
  link.Adopt(ConnectionId(7), &actions_);
  ASSERT_EQ(actions_.size(), 1u);
  EXPECT_EQ(actions_[0].connection, ConnectionId(5));
  EXPECT_THAT(Wanted(), ElementsAre(Kind::kClose));
  EXPECT_TRUE(link.Owns(ConnectionId(7)));
  EXPECT_TRUE(link.is_up());
}

}  // namespace
}  // namespace strata
