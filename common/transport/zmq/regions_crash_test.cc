// Alone in its program: a process that has used ZeroMQ cannot fork one that does.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "common/transport/zmq/region_fixture.h"

namespace strata::transport {
namespace {

TEST(RegionsCrash, AProcessThatDiesWithBytesInItsHandsReleasesThem) {
  int ports[2];
  ASSERT_EQ(pipe(ports), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Host server;
    const auto port = server.endpoint->Listen("tcp://127.0.0.1:0");
    const int number = port.ok() ? *port : 0;
    if (write(ports[1], &number, sizeof number) != sizeof number) _exit(2);
    const auto is_shared = [](const Event& event) { return IsShared(event.frame.payload); };
    const bool came = PollUntil({&server}, [&] {
      if (!server.events.empty()) server.Admit(server.events[0].connection);
      // Others are released at once: looking at all that ever came would fall behind the sender.
      while (server.events.size() > 1) server.events.erase(server.events.begin());
      return std::any_of(server.events.begin(), server.events.end(), is_shared);
    });
    _exit(came ? 0 : 3);  // as if it were killed: nothing is released
  }
  Host client;
  int port = 0;
  ASSERT_EQ(read(ports[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const ConnectionId up = *client.endpoint->Connect(absl::StrFormat("tcp://127.0.0.1:%d", port));
  ASSERT_TRUE(PollUntil({&client}, [&] {
    client.Admit(up);
    client.endpoint->Send(up, client.MakeFrame(1)).IgnoreError();
    return !client.events.empty() && client.events.back().kind == Event::Kind::kDisconnected;
  }));
  EXPECT_TRUE(PollUntil(
      {&client}, [&] { return client.pool->allocated_bytes() == client.pool->retained_bytes(); }));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ports[0]);
  close(ports[1]);
}

}  // namespace
}  // namespace strata::transport
