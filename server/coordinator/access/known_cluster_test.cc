#include "server/coordinator/access/known_cluster.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/os/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

constexpr char kId[] = "0123456789abcdef";
constexpr char kOther[] = "fedcba9876543210";

class KnownClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  absl::Status Keep(const std::string& name, const std::string& id) {
    return KeepToCluster(folder_, {.etcd = "etcd at e:2379", .name = name, .id = id});
  }

  std::string folder_;
};

TEST(ClusterId, IsOf16HexadecimalDigits) {
  EXPECT_TRUE(IsClusterId(kId));
  for (const char* bad : {"", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg"}) {
    EXPECT_FALSE(IsClusterId(bad)) << bad;
  }
}

TEST_F(KnownClusterTest, AFolderIsOfTheFirstClusterThatItIsUsedFor) {
  EXPECT_TRUE(Keep("lab", "").ok()) << "the first coordinator makes it";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/etcd_cluster"));
  EXPECT_TRUE(RequireStandaloneState(folder_).ok());
  EXPECT_TRUE(Keep("lab", kId).ok());
  EXPECT_EQ(*ReadFile(folder_ + "/etcd_cluster", 100), "lab 0123456789abcdef\n");
  EXPECT_TRUE(Keep("lab", kId).ok());
  EXPECT_TRUE(Keep("moved", kId).ok()) << "it is the same one below another name";
}

TEST_F(KnownClusterTest, AnotherClusterIsRefusedAndBothAreNamed) {
  ASSERT_TRUE(Keep("lab", kId).ok());
  const std::string how =
      ": name the etcd and cluster that it is of, or another folder with --state";
  EXPECT_EQ(Keep("lab", kOther),
            absl::FailedPreconditionError(absl::StrCat(
                folder_,
                "/etcd_cluster: this folder is of cluster lab (0123456789abcdef), and etcd at "
                "e:2379 has cluster lab (fedcba9876543210)",
                how)));
  EXPECT_EQ(Keep("lab", ""),
            absl::FailedPreconditionError(absl::StrCat(
                folder_,
                "/etcd_cluster: this folder is of cluster lab (0123456789abcdef), and etcd at "
                "e:2379 has no cluster lab",
                how)));
  EXPECT_TRUE(Keep("lab", kId).ok()) << "what it was refused for has changed nothing";
}

TEST_F(KnownClusterTest, WithoutEtcdAFolderOfOneIsRefused) {
  ASSERT_TRUE(Keep("lab", kId).ok());
  EXPECT_EQ(RequireStandaloneState(folder_),
            absl::FailedPreconditionError(absl::StrCat(
                folder_,
                "/etcd_cluster: this folder is of cluster lab (0123456789abcdef), whose jobs are "
                "in etcd: name that with --etcd, or another folder with --state")));
}

TEST_F(KnownClusterTest, WhatIsDamagedIsNamed) {
  for (const std::string& bad :
       {std::string(), std::string("\n"), std::string("lab\n"), absl::StrCat("lab ", kId),
        absl::StrCat("lab ", kId, "0\n"), absl::StrCat("lab ", std::string(16, 'x'), "\n"),
        absl::StrCat(" ", kId, "\n"), absl::StrCat("lab ", kId, " more\n")}) {
    std::ofstream(folder_ + "/etcd_cluster") << bad;
    const absl::Status damaged = absl::DataLossError(absl::StrCat(
        folder_, "/etcd_cluster: is damaged: no name of a cluster and its id of 16 digits"));
    EXPECT_EQ(Keep("lab", kId), damaged) << bad;
    EXPECT_EQ(RequireStandaloneState(folder_), damaged) << bad;
  }
  std::ofstream(folder_ + "/etcd_cluster") << std::string(1000, 'x');
  EXPECT_EQ(Keep("lab", kId).code(), absl::StatusCode::kInvalidArgument);
}

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
