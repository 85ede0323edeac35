// Jobs whose ranks all-reduce on their GPUs, by events.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using Message = proto::CoordinatorMessage;

class CoreNccl : public testing::Test {
 protected:
  CoreNccl() {
    for (const char* name : {"w1", "w2"}) {
      cluster_.SetGpus(name, 2);
      cluster_.JoinWorker(name, 4);
      cluster_.Sent(name);
    }
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_device(proto::Job::GPU);
    job.set_exchange(proto::Job::NCCL);
    job_ = cluster_.Submit(job);
  }

  void Ready(const std::string& worker, const std::string& nccl_id) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_nccl_id(nccl_id);
    cluster_.Ready(worker, ready);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreNccl, AllNodesHearTheIdOfRank0sAndNoServerIsNeeded) {
  const std::string id(128, 'n');
  Ready("w2", "");
  Ready("w1", id);
  for (const char* name : {"w1", "w2"}) {
    EXPECT_THAT(cluster_.Sent(name), ElementsAre("StartNode 1", "RunNode 1"));
    const proto::JobRecord record = cluster_.Newest(name, Message::kRunNode).run_node().record();
    EXPECT_EQ(record.nccl_id(), id);
    EXPECT_EQ(record.placement().chunk_elements(), 1000u);
  }
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FINISHED);
}

TEST_F(CoreNccl, AnIdThatIsNoneFailsTheJob) {
  Ready("w1", "short");
  Ready("w2", std::string(128, 'n'));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "node 0 (w1) gives an id of 5 bytes for NCCL's ranks to meet by, not 128");
}

}  // namespace
}  // namespace strata::server
