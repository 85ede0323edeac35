// What an aggregator says of refusals reaches the daemon's count of them.
#include <string>

#include "gtest/gtest.h"
#include "worker/agent/job_processes_core.h"

namespace strata::worker {
namespace {

constexpr int kRank = 0, kAggregator = 2;

TEST(JobProcessesRefusals, AreTheAggregatorsAndNotARanks) {
  proto::StartNode start;
  start.mutable_record()->set_job_id(7);
  start.mutable_record()->mutable_view()->add_nodes()->set_ranks(2);
  JobProcessesCore core("w1", start, "/runs/job-7", {}, nullptr, absl::UnixEpoch());
  core.Start(absl::UnixEpoch());
  core.OnClaimed(absl::OkStatus(), absl::UnixEpoch());
  for (int i = 0; i < core.life().children(); ++i) core.OnStarted();
  core.TakeActions();

  proto::ChildMessage said;
  proto::Refusal* refusal = said.mutable_refusals()->add_refusals();
  refusal->set_cause("wrong secret of a job");
  refusal->set_count(4);
  const std::string bytes = said.SerializeAsString();
  core.OnChildMessage(kRank, bytes, absl::UnixEpoch());
  EXPECT_EQ(core.watch().refusals(), transport::Refusals());
  core.OnChildMessage(kAggregator, bytes, absl::UnixEpoch());
  EXPECT_EQ(core.watch().refusals(), (transport::Refusals{{"wrong secret of a job", 4}}));
  EXPECT_TRUE(core.TakeActions().empty()) << "the heartbeat tells it";
}

}  // namespace
}  // namespace strata::worker
