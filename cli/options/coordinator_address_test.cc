#include "cli/options/coordinator_address.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

TEST(CoordinatorAddress, APortASocketAndSeveralPortsAreTaken) {
  for (const char* good : {"a:7070", "[::1]:7070", "unix:/run/a,b", "a:7070,b:7070,10.0.0.3:1"}) {
    EXPECT_EQ(CheckCoordinatorAddress(good), "") << good;
  }
}

TEST(CoordinatorAddress, WhatIsWrongIsNamed) {
  EXPECT_EQ(CheckCoordinatorAddress("a"), "expected HOST:PORT or unix:/PATH, not \"a\"");
  EXPECT_EQ(CheckCoordinatorAddress(""), "expected HOST:PORT or unix:/PATH, not \"\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,b"), "expected HOST:PORT, not \"b\"");
  for (const char* bad : {"a:1,", ",a:1", "a:1,,b:1"}) {
    EXPECT_EQ(CheckCoordinatorAddress(bad), absl::StrCat("expected HOST:PORT,HOST:PORT, not \"",
                                                         bad, "\": one of its addresses is empty"));
  }
  EXPECT_EQ(CheckCoordinatorAddress("a:1, b:1"), "expected HOST:PORT, not \" b:1\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,unix:/b"), "expected HOST:PORT, not \"unix:/b\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,b:2,a:1"), "a:1 is named twice");
  std::string many = "h:1";
  for (int port = 2; port <= 17; ++port) absl::StrAppend(&many, ",h:", port);
  EXPECT_EQ(CheckCoordinatorAddress(many), "17 addresses are more than 16");
}

TEST(HostsAndPorts, AreOneOrSeveralWithoutASocket) {
  for (const char* good : {"a:2379", "a:2379,b:2379", "[::1]:1,10.0.0.3:1"}) {
    EXPECT_EQ(CheckHostsAndPorts(good), "") << good;
  }
  EXPECT_EQ(CheckHostsAndPorts("unix:/run/a"), "expected HOST:PORT, not \"unix:/run/a\"");
  EXPECT_EQ(CheckHostsAndPorts(""), "expected HOST:PORT, not \"\"");
  EXPECT_EQ(CheckHostsAndPorts("a:1,a:1"), "a:1 is named twice");
  EXPECT_EQ(CheckHostsAndPorts("a:1,b"), "expected HOST:PORT, not \"b\"");
}

}  // namespace
}  // namespace strata::cli
