#include "server/coordinator/jobs/ring_agreement.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Time kNow = absl::UnixEpoch();

proto::RingStopped Stopped(uint32_t node, uint32_t number, uint64_t clock, uint64_t from_clock) {
  proto::RingStopped stopped;
  stopped.set_node(node);
  stopped.set_number(number);
  stopped.set_clock(clock);
  stopped.set_from_clock(from_clock);
  return stopped;
}

TEST(RingAgreement, AllGoOnWithTheMostStepsAndTheLargestPromise) {
  RingAgreement ring;
  EXPECT_FALSE(ring.is_asking());
  ring.Ask(3, {0, 2}, kNow);
  EXPECT_THAT(ring.Unanswered(), ElementsAre(0, 2));
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 10, 12)).ok());
  EXPECT_FALSE(ring.is_agreed());
  EXPECT_TRUE(ring.OnStopped(Stopped(2, 3, 9, 14)).ok());
  ASSERT_TRUE(ring.is_agreed());
  const proto::FormRing forming = *ring.Decide(/*clock_before=*/0);
  EXPECT_EQ(forming.clock(), 10u);
  EXPECT_TRUE(forming.some_lack());
  EXPECT_FALSE(forming.is_over());
  EXPECT_THAT(forming.nodes(), ElementsAre(0, 2));
  EXPECT_EQ(forming.change().number(), 3u);
  EXPECT_EQ(forming.change().at_clock(), 14u);
}

TEST(RingAgreement, TheFirstNodesIdIsTheRings) {
  RingAgreement ring;
  ring.Ask(3, {0, 1, 2}, kNow);
  for (const uint32_t node : {2, 0, 1}) {
    proto::RingStopped stopped = Stopped(node, 3, 10, 12);
    stopped.set_nccl_id(std::string(1, static_cast<char>('a' + node)));
    EXPECT_TRUE(ring.OnStopped(stopped).ok());
  }
  EXPECT_EQ(ring.Decide(0)->nccl_id(), "a");
}

TEST(RingAgreement, AChangeComesAfterTheStepsThatAreMadeAndAfterTheOneBefore) {
  RingAgreement ring;
  ring.Ask(3, {0}, kNow);
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 10, 4)).ok());
  EXPECT_EQ(ring.Decide(0)->change().at_clock(), 11u);
  EXPECT_FALSE(ring.Decide(0)->some_lack());
  EXPECT_EQ(ring.Decide(20)->change().at_clock(), 21u);
}

TEST(RingAgreement, OtherNumbersOtherNodesSecondThoughtsAndHugeClocksAreNotHeard) {
  RingAgreement ring;
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 0, 1, 1)).ok());
  ring.Ask(3, {0, 1}, kNow);
  const uint64_t huge = RingAgreement::kClockMax + 1;
  for (const proto::RingStopped& stopped :
       {Stopped(0, 2, 9, 9), Stopped(5, 3, 9, 9), Stopped(0, 3, huge, 9), Stopped(0, 3, 9, huge)}) {
    EXPECT_TRUE(ring.OnStopped(stopped).ok());
  }
  EXPECT_THAT(ring.Unanswered(), ElementsAre(0, 1));
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 9, 9)).ok());
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 10, 99)).ok());
  EXPECT_TRUE(ring.OnStopped(Stopped(1, 3, 9, 9)).ok());
  EXPECT_EQ(ring.Decide(0)->clock(), 9u);
  EXPECT_EQ(ring.Decide(0)->change().at_clock(), 10u);
}

TEST(RingAgreement, ANodeThatCannotGoOnSaysWhy) {
  RingAgreement ring;
  ring.Ask(3, {0}, kNow);
  proto::RingStopped stopped = Stopped(0, 2, 0, 0);
  stopped.set_error("no weights yet");
  EXPECT_TRUE(ring.OnStopped(stopped).ok()) << "of another number";
  stopped.set_number(3);
  EXPECT_EQ(ring.OnStopped(stopped).message(), "no weights yet");
}

TEST(RingAgreement, AskedAgainAllAnswerAgain) {
  RingAgreement ring;
  ring.Ask(3, {0, 1, 2}, kNow);
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 10, 12)).ok());
  ring.OnFinished(1);
  ring.Ask(4, {0, 2}, kNow);
  EXPECT_THAT(ring.Unanswered(), ElementsAre(0, 2));
  for (const uint32_t node : {0, 2}) EXPECT_TRUE(ring.OnStopped(Stopped(node, 4, 10, 11)).ok());
  EXPECT_EQ(ring.Decide(0)->change().number(), 4u);
  EXPECT_FALSE(ring.Decide(0)->is_over());
  ring.End();
  EXPECT_FALSE(ring.is_asking());
}

TEST(RingAgreement, ItIsOverOnceOneNodeKnowsOrHasFinished) {
  RingAgreement ring;
  ring.Ask(3, {0, 1}, kNow);
  proto::RingStopped knows = Stopped(0, 3, 100, 100);
  knows.set_is_over(true);
  EXPECT_TRUE(ring.OnStopped(knows).ok());
  EXPECT_TRUE(ring.OnStopped(Stopped(1, 3, 100, 100)).ok());
  EXPECT_TRUE(ring.Decide(0)->is_over());
  ring.Ask(4, {0, 1, 2}, kNow);
  for (const uint32_t node : {0, 1}) EXPECT_TRUE(ring.OnStopped(Stopped(node, 4, 100, 1)).ok());
  EXPECT_FALSE(ring.is_agreed());
  ring.OnFinished(2);
  ASSERT_TRUE(ring.is_agreed());
  EXPECT_TRUE(ring.Decide(0)->is_over());
  EXPECT_THAT(ring.Decide(0)->nodes(), ElementsAre(0, 1)) << "the others have nothing to do";
}

TEST(RingAgreement, ClocksThatNoAllReduceLeavesAreRefused) {
  RingAgreement ring;
  ring.Ask(3, {0, 1}, kNow);
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 8, 9)).ok());
  EXPECT_TRUE(ring.OnStopped(Stopped(1, 3, 10, 9)).ok());
  EXPECT_THAT(std::string(ring.Decide(0).status().message()),
              HasSubstr("node 1 has made 10 steps and node 0 8"));
  ring.Ask(4, {0, 1, 2}, kNow);
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 4, 9, 9)).ok());
  EXPECT_TRUE(ring.OnStopped(Stopped(1, 4, 10, 9)).ok());
  ring.OnFinished(2);
  EXPECT_THAT(std::string(ring.Decide(0).status().message()),
              HasSubstr("though all are to have made all"));
}

TEST(RingAgreement, WhoDoesNotAnswerIsLateUnlessAskedAnew) {
  RingAgreement ring;
  ring.Ask(3, {0, 1, 2}, kNow);
  EXPECT_TRUE(ring.OnStopped(Stopped(0, 3, 8, 9)).ok());
  EXPECT_THAT(ring.UnansweredSince(kNow), IsEmpty());
  ring.AskAgain(2, kNow + absl::Seconds(5));
  ring.AskAgain(7, kNow);
  EXPECT_THAT(ring.UnansweredSince(kNow + absl::Seconds(5)), ElementsAre(1));
  ring.Excuse(absl::Seconds(5), kNow + absl::Seconds(6));
  EXPECT_THAT(ring.UnansweredSince(kNow + absl::Seconds(5)), IsEmpty());
}

}  // namespace
}  // namespace strata::server
