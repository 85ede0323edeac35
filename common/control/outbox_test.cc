#include "common/control/outbox.h"

#include <string>
#include <vector>

#include "common/os/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::control {
namespace {

using ::testing::ElementsAre;

proto::DaemonMessage Finished(uint32_t job) {
  proto::DaemonMessage message;
  message.mutable_node_finished()->set_job_id(job);
  return message;
}

proto::DaemonMessage Large(size_t bytes) {
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_reason(std::string(bytes, 'x'));
  return message;
}

class OutboxTest : public ::testing::Test {
 protected:
  void Add(uint32_t job) { ASSERT_TRUE(outbox_.Add(Finished(job))); }
  // Sends everything that waits; returns it in order.
  std::vector<uint32_t> Send() {
    std::vector<uint32_t> jobs;
    while (const proto::DaemonMessage* next = outbox_.Next()) {
      jobs.push_back(next->node_finished().job_id());
      outbox_.MarkSent(now_);
    }
    return jobs;
  }

  Outbox outbox_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(OutboxTest, GivesWhatWasAddedInOrderAndOnce) {
  Add(1);
  Add(2);
  EXPECT_EQ(outbox_.messages(), 2u);
  EXPECT_EQ(outbox_.bytes(), 2 * Finished(1).ByteSizeLong());
  EXPECT_THAT(Send(), ElementsAre(1, 2));
  EXPECT_THAT(Send(), ElementsAre());
  EXPECT_EQ(outbox_.bytes(), 0u);
}

TEST_F(OutboxTest, SaysAgainWhatWasSentShortlyBeforeTheBreakAndThenTheRest) {
  Add(1);
  Send();
  now_ += absl::Seconds(10);
  Add(2);
  Send();
  now_ += absl::Seconds(3);
  Add(3);
  outbox_.OnBroken(now_);
  EXPECT_EQ(outbox_.bytes(), 2 * Finished(1).ByteSizeLong());
  EXPECT_THAT(Send(), ElementsAre(2, 3));
}

TEST_F(OutboxTest, SaysItAgainHoweverLongTheBreakLasts) {
  Add(1);
  Send();
  outbox_.OnBroken(now_);
  now_ += absl::Minutes(5);
  EXPECT_THAT(Send(), ElementsAre(1));
  outbox_.OnBroken(now_);
  outbox_.OnBroken(now_ + absl::Minutes(5));
  EXPECT_THAT(Send(), ElementsAre(1));
}

TEST_F(OutboxTest, SaysAgainWhatASecondBreakCutShort) {
  for (uint32_t job : {1, 2, 3}) Add(job);
  Send();
  outbox_.OnBroken(now_);
  outbox_.MarkSent(now_);
  Add(4);
  outbox_.OnBroken(now_ + absl::Seconds(1));
  EXPECT_EQ(outbox_.bytes(), 4 * Finished(1).ByteSizeLong());
  EXPECT_THAT(Send(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(outbox_.bytes(), 0u);
}

TEST_F(OutboxTest, AnswersToWhatWasAskedBeforeTheBreakAreNotSaidAfterIt) {
  proto::DaemonMessage tried;
  tried.mutable_peers_tried()->add_peers()->set_address("tcp://host:1");
  Add(1);
  ASSERT_TRUE(outbox_.Add(tried));
  Send();
  Add(2);
  ASSERT_TRUE(outbox_.Add(tried));
  outbox_.OnBroken(now_);
  EXPECT_EQ(outbox_.bytes(), 2 * Finished(1).ByteSizeLong());
  EXPECT_THAT(Send(), ElementsAre(1, 2));
}

TEST_F(OutboxTest, RefusesWhatDoesNotFitButRepetitionsTakeNobodysRoom) {
  const proto::DaemonMessage large = Large(kQueuedBytesMax / 2);
  EXPECT_TRUE(outbox_.Add(large));
  EXPECT_TRUE(outbox_.Add(Finished(2)));
  EXPECT_FALSE(outbox_.Add(large));
  EXPECT_EQ(outbox_.messages(), 2u);
  EXPECT_EQ(outbox_.message_bytes_max(), large.ByteSizeLong());
  Send();
  EXPECT_TRUE(outbox_.Add(large));
  outbox_.OnBroken(now_);
  EXPECT_EQ(outbox_.messages(), 3u);
  EXPECT_TRUE(outbox_.Add(Finished(4)));
  EXPECT_FALSE(outbox_.Add(large));
}

TEST_F(OutboxTest, WhatIsKeptToBeSaidAgainIsBoundedAndTheNewestOfIt) {
  const size_t each = kQueuedBytesMax / 3;
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(outbox_.Add(Large(each + i)));
    outbox_.MarkSent(now_);
  }
  outbox_.OnBroken(now_);
  ASSERT_EQ(outbox_.messages(), 2u);
  EXPECT_EQ(outbox_.Next()->node_failed().reason().size(), each + 3);
}

}  // namespace
}  // namespace strata::control
