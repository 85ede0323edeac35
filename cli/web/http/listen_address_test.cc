#include "cli/web/http/listen_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::StartsWith;

bool IsLoopback(const std::string& host) {
  const auto address = ResolveListenAddress(host);
  EXPECT_EQ(address.status(), absl::OkStatus()) << host;
  return address.ok() && address->is_loopback;
}

TEST(ListenAddressTest, OnlyThisHostReachesAllOf127AndIPv6Loopback) {
  for (const char* host : {"127.0.0.1", "127.200.3.4", "127.1", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
}

TEST(ListenAddressTest, OthersReachEveryOtherAddress) {
  for (const char* host : {"0.0.0.0", "::", "128.0.0.1", "10.0.0.127", "::7f00:1", "fe80::1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(ListenAddressTest, AllAddressesAreNoneToGoTo) {
  for (const char* host : {"0.0.0.0", "::"}) {
    EXPECT_TRUE(ResolveListenAddress(host)->is_any) << host;
  }
  for (const char* host : {"127.0.0.1", "10.1.2.3", "fe80::1"}) {
    EXPECT_FALSE(ResolveListenAddress(host)->is_any) << host;
  }
}

TEST(ListenAddressTest, AnAddressStaysAsItIs) {
  EXPECT_EQ(ResolveListenAddress("10.1.2.3")->text, "10.1.2.3");
  EXPECT_EQ(ResolveListenAddress("::1")->text, "::1");
}

TEST(ListenAddressTest, AHostWithoutAnAddressIsNamed) {
  const auto address = ResolveListenAddress("127.no-such-host.invalid");
  EXPECT_TRUE(absl::IsUnavailable(address.status()));
  EXPECT_THAT(std::string(address.status().message()),
              StartsWith("cannot listen at 127.no-such-host.invalid: "));
}

}  // namespace
}  // namespace strata::cli
