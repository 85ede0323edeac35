#include "common/control/redial.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::control {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

const absl::Time kBroken = absl::FromUnixSeconds(1000);

TEST(Redial, IsQuickAfterAShortBreakAndSlowAfterALongOne) {
  Redial redial(kBroken);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(redial.Pause(kBroken),
                AllOf(Ge(absl::Milliseconds(25)), Le(absl::Milliseconds(75))));
    EXPECT_THAT(redial.Pause(kBroken + absl::Seconds(2)),
                AllOf(Ge(absl::Milliseconds(125)), Le(absl::Milliseconds(375))));
    EXPECT_THAT(redial.Pause(kBroken + absl::Minutes(1)),
                AllOf(Ge(absl::Milliseconds(500)), Le(absl::Milliseconds(1500))));
  }
}

TEST(Redial, SessionsThatBrokeTogetherDoNotTryTogether) {
  std::set<absl::Duration> pauses;
  for (int i = 0; i < 100; ++i) pauses.insert(Redial(kBroken).Pause(kBroken + absl::Seconds(2)));
  EXPECT_GT(pauses.size(), 90u);
}

TEST(Redial, WaitsForAHandshakeAsLongAsItHasBeenAway) {
  const Redial redial(kBroken);
  EXPECT_EQ(redial.Limits(kBroken).handshake, absl::Seconds(3));
  EXPECT_EQ(redial.Limits(kBroken + absl::Seconds(10)).handshake, absl::Seconds(10));
  EXPECT_EQ(redial.Limits(kBroken + absl::Minutes(1)).handshake, absl::Seconds(30));
}

TEST(Redial, DoesNotWaitForTcpToRepeatWhatOpensALineAtFirst) {
  const Redial redial(kBroken);
  EXPECT_EQ(redial.Limits(kBroken + absl::Seconds(3)).connect, absl::Milliseconds(500));
  EXPECT_EQ(redial.Limits(kBroken + absl::Seconds(4)).connect, absl::Seconds(5));
}

TEST(Redial, APauseIsNotShorterThanItIsSaidToBe) {
  Redial redial(kBroken);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(redial.Pause(kBroken, absl::Milliseconds(200)),
                AllOf(Ge(absl::Milliseconds(100)), Le(absl::Milliseconds(300))));
  }
}

TEST(Redial, ALineThatWasUpBeginsAnew) {
  Redial redial(kBroken);
  const absl::Time later = kBroken + absl::Minutes(1);
  redial.OnBroken(later);
  EXPECT_EQ(redial.Away(later), absl::ZeroDuration());
  EXPECT_LE(redial.Pause(later), absl::Milliseconds(75));
}

}  // namespace
}  // namespace strata::control
