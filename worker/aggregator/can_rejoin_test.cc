#include "worker/aggregator/can_rejoin.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

class CanRejoin : public testing::Test {
 protected:
  CanRejoin() {
    launch_.set_node(3);
    launch_.set_incarnation(2);
    launch_.mutable_record()->mutable_job()->mutable_replace()->set_per_hour(1);
    offer_.set_can_resume(true);
  }
  void ExpectRefused(const char* why) {
    const absl::Status status = CheckCanRejoin(launch_, offer_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                testing::StartsWith(
                    std::string("node 3 cannot take the place of the one that died: ") + why));
  }
  proto::Launch launch_;
  proto::Offer offer_;
};

TEST_F(CanRejoin, ANodeWhoseProgramBeginsAnywhereAndKeepsNothing) {
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
}

TEST_F(CanRejoin, NotOneWhoseProgramBeginsWithItsFirstStep) {
  offer_.set_can_resume(false);
  ExpectRefused("its program has not said");
}

TEST_F(CanRejoin, NotOneWhoseRanksKeepState) {
  offer_.set_keeps_state(true);
  ExpectRefused("its ranks keep state");
}

TEST_F(CanRejoin, AFirstProcessTakesNobodysPlace) {
  offer_.set_can_resume(false);
  launch_.set_incarnation(1);
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
  launch_.set_incarnation(2);
  launch_.mutable_record()->mutable_job()->clear_replace();
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
}

// It is absent from its record's view.
TEST_F(CanRejoin, ANodeThatJoinsTheJobMustBeAbleToo) {
  launch_.set_incarnation(1);
  proto::LogicalNode* const node = launch_.mutable_record()->mutable_view()->add_nodes();
  node->set_node(3);
  node->set_ranks(1);
  node->set_absent(true);
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
  offer_.set_can_resume(false);
  EXPECT_THAT(std::string(CheckCanRejoin(launch_, offer_).message()),
              testing::StartsWith("node 3 cannot join the job: its program has not said"));
  offer_.set_can_resume(true);
  offer_.set_keeps_state(true);
  EXPECT_THAT(std::string(CheckCanRejoin(launch_, offer_).message()),
              testing::StartsWith("node 3 cannot join the job: its ranks keep state"));
}

}  // namespace
}  // namespace strata::worker
