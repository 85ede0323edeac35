#include "server/coordinator/access/path_prefix.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(NormalPath, LeavesOutWhatSaysNothing) {
  for (const auto& [path, normal] :
       {std::pair("/", "/"), std::pair("//", "/"), std::pair("/.", "/"), std::pair("/a", "/a"),
        std::pair("/a/", "/a"), std::pair("//a//b/./c/.", "/a/b/c"), std::pair("/a/...", "/a/..."),
        std::pair("/a/..b", "/a/..b"), std::pair("s3://bucket", "s3://bucket"),
        std::pair("s3://bucket//a/./b/", "s3://bucket/a/b")}) {
    EXPECT_EQ(NormalPath(path).value_or("refused"), normal);
  }
}

TEST(NormalPath, RefusesWhatMayLeadElsewhere) {
  for (const std::string path :
       {"", "a", "./a", "../a", "~/a", "/..", "/a/..", "/a/../b", "/../a", "s3:", "s3:/a", "s3://",
        "s3:///a", "s3://./a", "s3://../a", "s3://bucket/../other", "file:///a"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(NormalPath(path).status())) << path;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(NormalPath(std::string("/a\0/b", 5)).status()));
}

TEST(LiesBelow, ComparesWholeParts) {
  EXPECT_TRUE(LiesBelow("/data/vision", "/data/vision"));
  EXPECT_TRUE(LiesBelow("/data/vision/a", "/data/vision"));
  EXPECT_TRUE(LiesBelow("/data", "/"));
  EXPECT_TRUE(LiesBelow("s3://b/vision/a", "s3://b/vision"));
  EXPECT_FALSE(LiesBelow("/data/visions", "/data/vision"));
  EXPECT_FALSE(LiesBelow("/data", "/data/vision"));
  EXPECT_FALSE(LiesBelow("/date/vision", "/data/vision"));
  EXPECT_FALSE(LiesBelow("s3://b/a", "/"));
  EXPECT_FALSE(LiesBelow("s3://bb/vision", "s3://b"));
  EXPECT_FALSE(LiesBelow("/s3:/b", "s3://b"));
}

}  // namespace
}  // namespace strata::server
