#include "worker/exchange/core/link_driver.h"

#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using transport::ConnectionId;
using transport::Event;

// Sends nothing, and counts lost connections.
class SilentCore final : public LinkCore {
 public:
  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time, CoreActions*) override {
    if (event.kind == LinkEvent::Kind::kLost) ++lost;
    return absl::OkStatus();
  }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  const std::string& address(LinkId) const override { return address_; }

  int lost = 0;

 private:
  const std::string address_;
};

// Reports the events of a test's script.
class ScriptedEndpoint final : public transport::Endpoint {
 public:
  absl::StatusOr<int> Listen(const std::string&) override { return 1; }
  absl::StatusOr<ConnectionId> Connect(const std::string&) override { return ConnectionId(1); }
  absl::Status Send(ConnectionId, const wire::Frame&) override { return absl::OkStatus(); }
  void Poll(absl::Duration, std::vector<Event>* events) override {
    *events = std::exchange(happened, {});
  }
  void WatchFd(int) override {}
  transport::EndpointUse use() const override { return counted; }
  void Close(ConnectionId) override {}
  void Wake() override {}

  std::vector<Event> happened;
  transport::EndpointUse counted;
};

Event EventOf(Event::Kind kind, const absl::Status& why) {
  Event event;
  event.kind = kind;
  event.connection = ConnectionId(5);
  event.error = why;
  return event;
}

TEST(LinkDriver, CountsWhatItsEndpointRefusesAndWhatCannotBeRead) {
  SilentCore core;
  ScriptedEndpoint endpoint;
  const RealClock clock;
  LinkDriver driver(&core, &endpoint, &clock,
                    [](const NodeAction&, CoreActions*) { return absl::OkStatus(); });
  EXPECT_EQ(driver.refusals(), transport::Refusals());
  endpoint.counted.unsealed = 1;  // as the endpoint has counted what comes second
  endpoint.counted.broken_seals = 2;
  endpoint.happened = {
      EventOf(Event::Kind::kMalformed, absl::InvalidArgumentError("noise")),
      EventOf(Event::Kind::kMalformed, absl::PermissionDeniedError("without a seal")),
      EventOf(Event::Kind::kDisconnected, absl::UnavailableError("gone"))};
  ASSERT_EQ(driver.Poll(absl::ZeroDuration()), absl::OkStatus());
  EXPECT_EQ(
      driver.refusals(),
      (transport::Refusals{{"malformed", 1}, {"frame without a seal", 1}, {"broken seal", 2}}));
  EXPECT_EQ(core.lost, 3);
}

}  // namespace
}  // namespace strata::worker
