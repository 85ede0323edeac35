#include "server/coordinator/service/etcd/endpoints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;

TEST(EndpointsTest, OneOrSeveralAreTakenInTheirOrder) {
  EXPECT_THAT(*ParseEndpoints("a:2379"), ElementsAre("a:2379"));
  EXPECT_THAT(*ParseEndpoints("e-1.example:2379, 10.0.0.2:1,[::1]:65535"),
              ElementsAre("e-1.example:2379", "10.0.0.2:1", "[::1]:65535"));
}

TEST(EndpointsTest, WhatIsNoHostAndPortIsNamed) {
  for (const char* bad :
       {"", "a", ":2379", "a:", "a:0", "a:65536", "a:-1", "a:+1", "a b:2379", "a:2379/x"}) {
    EXPECT_EQ(ParseEndpoints(std::string("good:1,") + bad).status(),
              absl::InvalidArgumentError(std::string("etcd endpoint \"") + bad +
                                         "\": is no HOST:PORT; write HOST:PORT,HOST:PORT"))
        << bad;
  }
}

TEST(EndpointsTest, AUrlIsToldToDoWithoutItsScheme) {
  EXPECT_EQ(ParseEndpoints("https://a:2379").status(),
            absl::InvalidArgumentError("etcd endpoint \"https://a:2379\": write HOST:PORT without "
                                       "a scheme; files of keys ask for TLS"));
}

}  // namespace
}  // namespace strata::server
