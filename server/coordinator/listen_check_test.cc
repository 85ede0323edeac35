#include "server/coordinator/listen_check.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(CheckListenable, AcceptsAnyFreePort) {
  EXPECT_TRUE(CheckListenable("127.0.0.1:0").ok());
  EXPECT_TRUE(CheckListenable("localhost:0").ok());
}

TEST(CheckListenable, NamesAPortInUse) {
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(CheckListenable(where),
            absl::AlreadyExistsError("cannot listen on " + where + ": Address already in use"));
}

TEST(CheckListenable, NamesAnAddressThatIsNone) {
  for (const char* address : {"7070", ":7070", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x"}) {
    EXPECT_EQ(CheckListenable(address),
              absl::InvalidArgumentError(std::string("cannot listen on ") + address +
                                         ": expected HOST:PORT"));
  }
  // Of the documentation's network: no host has it.
  EXPECT_EQ(CheckListenable("192.0.2.1:0").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::server
