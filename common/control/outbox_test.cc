#include "common/control/outbox.h"

#include <string>
#include <vector>

#include "common/limits/limits.h"
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

class OutboxTest : public ::testing::Test {
 protected:
  // Everything that waits, in order.
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
  outbox_.Add(Finished(1));
  outbox_.Add(Finished(2));
  EXPECT_EQ(outbox_.messages(), 2u);
  EXPECT_EQ(outbox_.bytes(), 2 * Finished(1).ByteSizeLong());
  EXPECT_THAT(Send(), ElementsAre(1, 2));
  EXPECT_THAT(Send(), ElementsAre());
  EXPECT_EQ(outbox_.bytes(), 0u);
}

TEST_F(OutboxTest, SaysAgainWhatWasSentShortlyBeforeTheBreakAndThenTheRest) {
  outbox_.Add(Finished(1));
  Send();
  now_ += absl::Seconds(10);
  outbox_.Add(Finished(2));
  Send();
  now_ += absl::Seconds(3);
  outbox_.Add(Finished(3));
  outbox_.OnBroken(now_);
  EXPECT_EQ(outbox_.bytes(), 2 * Finished(1).ByteSizeLong());
  EXPECT_THAT(Send(), ElementsAre(2, 3));
}

TEST_F(OutboxTest, SaysItAgainHoweverLongTheBreakLasts) {
  outbox_.Add(Finished(1));
  Send();
  outbox_.OnBroken(now_);
  now_ += absl::Minutes(5);
  EXPECT_THAT(Send(), ElementsAre(1));
  outbox_.OnBroken(now_);
  outbox_.OnBroken(now_ + absl::Minutes(5));
  EXPECT_THAT(Send(), ElementsAre(1));
}

TEST_F(OutboxTest, RefusesWhatDoesNotFit) {
  proto::DaemonMessage large;
  large.mutable_node_failed()->set_reason(std::string(kQueuedBytesMax / 2, 'x'));
  EXPECT_TRUE(outbox_.Add(large));
  EXPECT_TRUE(outbox_.Add(Finished(2)));
  EXPECT_FALSE(outbox_.Add(large));
  EXPECT_EQ(outbox_.messages(), 2u);
  EXPECT_EQ(outbox_.message_bytes_max(), large.ByteSizeLong());
}

}  // namespace
}  // namespace strata::control
