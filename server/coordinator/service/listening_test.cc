#include "server/coordinator/service/listening.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(ListenOn, AcceptsAnyFreePort) {
  for (const char* address : {"127.0.0.1:0", "localhost:0"}) {
    const auto listeners = ListenOn(address);
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    for (const UniqueFd& listener : *listeners) {
      EXPECT_EQ(BoundPort(listener), BoundPort(listeners->front()));
      EXPECT_GT(BoundPort(listener), 0);
    }
  }
}

TEST(ListenOn, NamesAPortInUse) {
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(ListenOn(where).status(),
            absl::AlreadyExistsError("cannot listen on " + where + ": Address already in use"));
}

TEST(ListenOn, NamesAnAddressThatIsNone) {
  for (const char* address : {"7070", ":7070", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x"}) {
    EXPECT_EQ(ListenOn(address).status(),
              absl::InvalidArgumentError(std::string("cannot listen on ") + address +
                                         ": expected HOST:PORT"));
  }
  // Of the documentation's network: no host has it.
  EXPECT_EQ(ListenOn("192.0.2.1:0").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::server
