#include "common/control/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "gtest/gtest.h"

namespace strata::control {
namespace {

// A socket on a free port of loopback.
UniqueFd Bound(std::string* address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&bound), size), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  *address = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  return fd;
}

TEST(DialTcp, ConnectsWithALimitOfItsOwnForSilence) {
  std::string address;
  const UniqueFd listener = Bound(&address);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const auto fd = DialTcp(address, absl::Seconds(20), absl::Seconds(2));
  ASSERT_TRUE(fd.ok()) << fd.status();
  unsigned int silence_ms = 0;
  socklen_t size = sizeof(silence_ms);
  ASSERT_EQ(getsockopt(fd->get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, &size), 0);
  EXPECT_EQ(silence_ms, 2000u);
}

TEST(DialTcp, SaysWhyNot) {
  std::string address;
  const UniqueFd closed = Bound(&address);
  EXPECT_EQ(DialTcp(address, absl::Seconds(20), absl::Seconds(2)).status(),
            absl::UnavailableError("connection refused"));
  EXPECT_EQ(DialTcp("nowhere", absl::Seconds(20), absl::Seconds(2)).status(),
            absl::UnavailableError("expected HOST:PORT"));
  EXPECT_EQ(DialTcp("no-such-host.invalid:80", absl::Seconds(20), absl::Seconds(2)).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace strata::control
