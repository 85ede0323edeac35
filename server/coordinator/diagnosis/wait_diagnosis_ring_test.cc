// Who holds up a job whose nodes all-reduce.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/wait_diagnosis_fixture.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;

TEST_F(DiagnosisTest, InAnAllReduceASilentWorkerDaemonHoldsEverybodyUp) {
  WaitAllBut(3, 0);
  scene_.shards.clear();
  scene_.nodes[1].reported_step = 57;
  scene_.nodes[1].heard_at = kNow - absl::Seconds(8);
  EXPECT_THAT(Texts(), ElementsAre("node 1 (w2) at step 57 for 8 s: its worker daemon is silent"));
}

TEST_F(DiagnosisTest, InAnAllReduceANodeThatCannotReachAnotherSaysWhere) {
  WaitAllBut(3, 0);
  scene_.shards.clear();
  line(0).set_address("tcp://10.0.0.3:40000");
  line(0).set_connected(false);
  line(0).set_oldest_ms(4000);
  line(0).set_error("connection refused");
  EXPECT_THAT(Texts(), ElementsAre("node 0 (w1): connecting to tcp://10.0.0.3:40000 for 4 s: "
                                   "connection refused"));
}

}  // namespace
}  // namespace strata::server
