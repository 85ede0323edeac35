#include "worker/exchange/core/node_share.h"

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace strata::worker
