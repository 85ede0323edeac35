#include "server/coordinator/service/port_watch.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr uint64_t kProcess = 7;

// Two ports of one process.
class PortWatchTest : public testing::Test {
 protected:
  PortWatchTest() {
    for (auto& endpoint : endpoints_) {
      auto created = transport::CreateZmqEndpoint({});
      EXPECT_TRUE(created.ok()) << created.status();
      endpoint = *std::move(created);
      const auto port = endpoint->Listen("tcp://127.0.0.1:0");
      EXPECT_TRUE(port.ok()) << port.status();
      addresses_.push_back(absl::StrCat("tcp://127.0.0.1:", *port));
    }
  }

  std::unique_ptr<transport::Endpoint> endpoints_[2];
  std::vector<std::string> addresses_;
};

TEST_F(PortWatchTest, SaysThatNobodyListensWhereSomebodyDid) {
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  for (auto& endpoint : endpoints_) endpoint.reset();
  absl::Notification closed;
  watch.Look(kProcess, addresses_, [&] { closed.Notify(); });
  closed.WaitForNotification();
}

TEST_F(PortWatchTest, SaysNothingWhereOneOfThemIsOpen) {
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  endpoints_[0].reset();
  watch.Look(kProcess, addresses_, [] { ADD_FAILURE(); });
  watch.WaitForAll();
}

TEST_F(PortWatchTest, SaysNothingOfPortsThatWereNeverReached) {
  for (auto& endpoint : endpoints_) endpoint.reset();
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  watch.Look(kProcess, addresses_, [] { ADD_FAILURE(); });
  watch.WaitForAll();
}

TEST(PortWatch, EndsAtOnceWhenItIsStopped) {
  PortWatch watch;
  // Nobody answers from there (RFC 5737).
  watch.Learn(kProcess, {"tcp://192.0.2.1:7"});
  watch.Stop();
  watch.Stop();
}

}  // namespace
}  // namespace strata::server
