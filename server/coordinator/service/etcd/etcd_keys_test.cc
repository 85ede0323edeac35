#include "server/coordinator/service/etcd/etcd_keys.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(EtcdKeysTest, AllKeysLieBelowTheClusters) {
  const EtcdKeys keys("a.b-c_1");
  EXPECT_EQ(keys.prefix(), "strata/a.b-c_1/");
  EXPECT_EQ(keys.Leader(), "strata/a.b-c_1/leader");
  EXPECT_EQ(keys.Job(JobId(7)), "strata/a.b-c_1/jobs/0000000007");
  EXPECT_EQ(EtcdKeys::PartIn(keys.Parts(JobId(7)), "5-1", 3),
            "strata/a.b-c_1/parts/0000000007/5-1/000003");
  EXPECT_EQ(keys.KeyBook(), "strata/a.b-c_1/key_book");
  EXPECT_EQ(keys.PartsOfKeyBook(), "strata/a.b-c_1/parts/key_book/");
  EXPECT_EQ(keys.SeenBlock(9), "strata/a.b-c_1/seen/00000000000000000009");
}

TEST(EtcdKeysTest, KeysOfJobsStandInTheOrderOfTheirIds) {
  const EtcdKeys keys("c");
  EXPECT_LT(keys.Job(JobId(9)), keys.Job(JobId(10)));
  EXPECT_LT(keys.Job(JobId(10)), keys.Job(JobId(4294967295)));
  EXPECT_EQ(keys.JobOf(keys.Job(JobId(4294967295))), JobId(4294967295));
  EXPECT_LT(keys.SeenBlock(9), keys.SeenBlock(10));
  EXPECT_EQ(keys.SeenBlockOf(keys.SeenBlock(~uint64_t{0})), ~uint64_t{0});
}

TEST(EtcdKeysTest, WhatIsNoJobsKeyIsNone) {
  const EtcdKeys keys("c");
  for (const char* key : {"strata/c/jobs/1", "strata/c/jobs/00000000x1", "strata/c/jobs/+000000001",
                          "strata/c/jobs/9999999999", "strata/d/jobs/0000000001", ""}) {
    EXPECT_EQ(keys.JobOf(key), std::nullopt) << key;
  }
}

TEST(EtcdKeysTest, ARangeEndsBeforeTheNextPrefix) {
  const EtcdKeys keys("c");
  const std::string end = EtcdKeys::EndOf(keys.prefix());
  EXPECT_GT(end, keys.Job(JobId(4294967295)));
  EXPECT_GT(end, keys.prefix() + "\xff");
  EXPECT_GT(EtcdKeys("c0").prefix(), keys.prefix());
  EXPECT_GE(EtcdKeys("c0").prefix(), end) << "another cluster whose name begins alike";
  EXPECT_LT(EtcdKeys("c-").prefix(), keys.prefix());
  EXPECT_LT(EtcdKeys("c.1").prefix(), keys.prefix());
}

TEST(EtcdKeysTest, ANameThatWouldLeaveItsPrefixIsRefused) {
  for (const std::string& bad : {std::string(), std::string("a/b"), std::string("a b"),
                                 std::string("a\0", 2), std::string(65, 'a')}) {
    EXPECT_EQ(EtcdKeys::CheckCluster(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(EtcdKeys::CheckCluster("a/b"),
            absl::InvalidArgumentError(
                "cluster name \"a/b\": write 1 to 64 letters, digits, '.', '_' and '-'"));
  EXPECT_TRUE(EtcdKeys::CheckCluster(std::string(64, 'Z')).ok());
}

}  // namespace
}  // namespace strata::server
