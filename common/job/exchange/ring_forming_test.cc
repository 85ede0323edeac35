#include "common/job/exchange/ring_forming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

using ::testing::HasSubstr;

proto::JobRecord Record() {
  proto::JobRecord record;
  for (const uint32_t node : {0, 1, 2}) {
    proto::LogicalNode* const one = record.mutable_view()->add_nodes();
    one->set_node(node);
    one->set_first_rank(2 * node);
    one->set_ranks(2);
    record.mutable_ring()->add_endpoints("tcp://h:" + std::to_string(node));
  }
  record.mutable_view()->set_number(1);
  return record;
}

proto::FormRing Forming(std::initializer_list<uint32_t> nodes) {
  proto::FormRing forming;
  forming.mutable_change()->set_number(5);
  for (const uint32_t node : nodes) forming.add_nodes(node);
  return forming;
}

TEST(WithRing, KeepsTheNodesAndTheirAddresses) {
  const auto formed = WithRing(Record(), Forming({0, 2}), NodeId(2));
  ASSERT_TRUE(formed.ok()) << formed.status();
  EXPECT_EQ(formed->view().number(), 5u);
  ASSERT_EQ(formed->view().nodes_size(), 2);
  EXPECT_EQ(formed->view().nodes(1).node(), 2u);
  EXPECT_EQ(formed->view().nodes(1).first_rank(), 4u);
  ASSERT_EQ(formed->ring().endpoints_size(), 2);
  EXPECT_EQ(formed->ring().endpoints(1), "tcp://h:2");
}

TEST(WithRing, SaysWhatDoesNotFit) {
  const auto stranger = WithRing(Record(), Forming({0, 7}), NodeId(0));
  EXPECT_THAT(stranger.status().message(), HasSubstr("of which the job has 1"));
  const auto twice = WithRing(Record(), Forming({0, 0}), NodeId(0));
  EXPECT_THAT(twice.status().message(), HasSubstr("is to have 2 nodes, of which the job has 1"));
  const auto other = WithRing(Record(), Forming({0, 1}), NodeId(2));
  EXPECT_THAT(other.status().message(), HasSubstr("ring 5 does not have node 2"));
  const auto none = WithRing(Record(), Forming({}), NodeId(0));
  EXPECT_THAT(none.status().message(), HasSubstr("does not have node 0"));
  proto::JobRecord record = Record();
  record.mutable_ring()->clear_endpoints();
  EXPECT_FALSE(WithRing(record, Forming({0}), NodeId(0)).ok());
}

}  // namespace
}  // namespace strata
