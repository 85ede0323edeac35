#include <gtest/gtest.h>

#include "proto/control.pb.h"
#include "worker/contract/node_refusals.pb.h"

namespace strata::proto {
namespace {

TEST(NodeRefusals, IsToldFromAChildMessageByItsFieldsNumber) {
  NodeRefusals said;
  said.add_refusals()->set_cause("broken seal");
  said.mutable_refusals(0)->set_count(3);
  ChildMessage child;
  ASSERT_TRUE(child.ParseFromString(said.SerializeAsString()));
  EXPECT_EQ(child.message_case(), ChildMessage::MESSAGE_NOT_SET);

  child.Clear();
  child.mutable_activity()->set_refused(2);
  ASSERT_TRUE(said.ParseFromString(child.SerializeAsString()));
  EXPECT_EQ(said.refusals_size(), 0);
  const int number = NodeRefusals::kRefusalsFieldNumber;
  EXPECT_EQ(ChildMessage::descriptor()->FindFieldByNumber(number), nullptr);
}

}  // namespace
}  // namespace strata::proto
