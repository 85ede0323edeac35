#include "common/net/host_link.h"

#include "gtest/gtest.h"

namespace strata::net {
namespace {

TEST(LinkOfThisHost, NamesTheSameHostWhateverTheAddress) {
  const HostLink link = LinkOfThisHost("127.0.0.1");
  EXPECT_FALSE(link.host.empty());
  EXPECT_EQ(LinkOfThisHost("no address").host, link.host);
  EXPECT_EQ(LinkOfThisHost("192.0.2.1").host, link.host);
}

TEST(LinkOfThisHost, KnowsNoRateOfLoopbackAndOfAddressesThatThereAreNot) {
  EXPECT_EQ(LinkOfThisHost("127.0.0.1").bytes_per_s, 0);
  EXPECT_EQ(LinkOfThisHost("192.0.2.1").bytes_per_s, 0);
  EXPECT_EQ(LinkOfThisHost("no address").bytes_per_s, 0);
}

}  // namespace
}  // namespace strata::net
