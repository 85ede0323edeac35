#include "server/coordinator/service/port_watch.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/net/free_port.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(PortWatch, SaysThatNobodyListens) {
  const auto port = FreePort();
  ASSERT_TRUE(port.has_value());
  absl::Notification closed;
  PortWatch watch;
  watch.Look({absl::StrCat("tcp://127.0.0.1:", *port)}, [&] { closed.Notify(); });
  closed.WaitForNotification();
}

TEST(PortWatch, SaysNothingWhereOneOfThemIsOpen) {
  const auto port = FreePort();
  ASSERT_TRUE(port.has_value());
  const auto endpoint = transport::CreateZmqEndpoint({});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto open = (*endpoint)->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(open.ok()) << open.status();
  bool said = false;
  {
    PortWatch watch;
    watch.Look({absl::StrCat("tcp://127.0.0.1:", *open), absl::StrCat("tcp://127.0.0.1:", *port)},
               [&] { said = true; });
    absl::SleepFor(absl::Milliseconds(300));
  }
  EXPECT_FALSE(said);
}

TEST(PortWatch, EndsAtOnceWhenItIsStopped) {
  PortWatch watch;
  // Nobody answers from there (RFC 5737).
  watch.Look({"tcp://192.0.2.1:7"}, [] { ADD_FAILURE(); });
  watch.Stop();
  watch.Stop();
}

}  // namespace
}  // namespace strata::server
