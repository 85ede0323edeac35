#include "worker/exchange/core/exchange_core.h"

#include <memory>

#include "common/clock.h"
#include "common/event_fd.h"
#include "gtest/gtest.h"
#include "worker/exchange/core/peerless_core.h"

namespace strata::worker {
namespace {

// Nodes whose ranks have the same batch must agree on the samples of all, or their learning rates
// differ.
TEST(NodeShare, NodesOfAnySizeAgreeOnTheSamplesOfAll) {
  for (uint32_t ranks = 1; ranks <= 70; ++ranks) {
    for (uint32_t own = 1; own <= ranks; ++own) {
      proto::JobRecord record;
      record.mutable_view()->add_nodes()->set_ranks(own);
      if (own < ranks) {
        proto::LogicalNode* other = record.mutable_view()->add_nodes();
        other->set_node(1);
        other->set_ranks(ranks - own);
      }
      for (const uint64_t batch : {1, 3, 16, 100}) {
        EXPECT_EQ(NodeShare::Of(record, NodeId(0)).JobSamples(own * batch), ranks * batch)
            << own << " of " << ranks;
      }
    }
  }
}

TEST(NodeShare, ANodeThatIsNotInTheJobStandsForNothing) {
  EXPECT_EQ(NodeShare::Of(proto::JobRecord(), NodeId(3)).JobSamples(5), 0u);
}

TEST(RanksCore, NobodyIsWaitedForWhenTrainingBegins) {
  const EventFd wake = *EventFd::Create();
  const RealClock clock;
  // If each call waited, this would take five minutes.
  for (int i = 0; i < 300; ++i) {
    const auto exchange = WithoutPeers(std::make_unique<RanksCore>(0), wake.fd(), &clock);
    ASSERT_EQ(exchange->Start(), absl::OkStatus());
    ASSERT_EQ(exchange->Poll(absl::Seconds(1)), absl::OkStatus());
    ASSERT_EQ(exchange->phase(), Exchange::Phase::kTraining);
  }
}

TEST(RanksCore, ItsDescriptorEndsAWait) {
  const EventFd wake = *EventFd::Create();
  const RealClock clock;
  const auto exchange = WithoutPeers(std::make_unique<RanksCore>(0), wake.fd(), &clock);
  ASSERT_EQ(exchange->Start(), absl::OkStatus());
  wake.Notify();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(exchange->Poll(absl::Seconds(1)), absl::OkStatus());
  ASSERT_EQ(exchange->Finish(3), absl::OkStatus());
  EXPECT_EQ(exchange->phase(), Exchange::Phase::kFinished);
}

}  // namespace
}  // namespace strata::worker
