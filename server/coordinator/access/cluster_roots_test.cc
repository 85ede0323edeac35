#include "server/coordinator/access/cluster_roots.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

const std::string kOld(64, 'a');
const std::string kNew(64, 'b');
const std::string kNewest(64, 'c');
const std::string kStranger(64, 'd');

TEST(ClusterRoots, ACoordinatorOfTheClusterMayLead) {
  EXPECT_TRUE(CheckRoots(RootsValue({kOld}), {kOld}).ok());
  EXPECT_TRUE(CheckRoots(RootsValue({}), {}).ok());
}

TEST(ClusterRoots, ARotationBeginsAndEnds) {
  EXPECT_TRUE(CheckRoots(RootsValue({kOld}), {kNew, kOld}).ok());
  EXPECT_TRUE(CheckRoots(RootsValue({kNew, kOld}), {kNew, kOld}).ok());
  EXPECT_TRUE(CheckRoots(RootsValue({kNew, kOld}), {kNew}).ok());
  EXPECT_TRUE(CheckRoots(RootsValue({kNew}), {kNewest, kNew}).ok());
}

TEST(ClusterRoots, WhoseKeysWereLeftBehindMayNotLead) {
  EXPECT_EQ(CheckRoots(RootsValue({kNew, kOld}), {kOld}),
            absl::FailedPreconditionError("has the authority " + kNew +
                                          " since it was rotated, and this coordinator the " +
                                          "one before: copy STATE/keys from where it was rotated"));
}

TEST(ClusterRoots, OfAnotherClusterNobodyMayLead) {
  EXPECT_EQ(CheckRoots(RootsValue({kOld}), {kStranger}),
            absl::FailedPreconditionError(
                "belongs to a cluster with the authority " + kOld + ", and this coordinator has " +
                kStranger +
                ": take STATE/keys from a coordinator of that cluster, or name another cluster"));
  EXPECT_EQ(CheckRoots(RootsValue({kNew}), {kOld}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(CheckRoots(RootsValue({}), {kOld}).message()),
              HasSubstr("belongs to a cluster without keys, and this coordinator has some"));
  EXPECT_THAT(std::string(CheckRoots(RootsValue({kOld}), {}).message()),
              HasSubstr("this coordinator has no keys"));
}

TEST(ClusterRoots, AnotherValueIsDamaged) {
  for (const std::string& bad : {std::string(), std::string("x"), kOld + ",", kOld + "," + "z",
                                 "none," + kOld, kOld.substr(1) + "z"}) {
    EXPECT_EQ(CheckRoots(bad, {kOld}).code(), absl::StatusCode::kDataLoss) << bad;
  }
}

}  // namespace
}  // namespace strata::server
