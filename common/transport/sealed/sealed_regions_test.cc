// Sealed endpoints that share a host: payloads by reference stay as they are, others are sealed.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/sealed/testing/sealed_pair.h"
#include "common/transport/zmq/region_fixture.h"

namespace strata::transport {
namespace {

void Seal(Host* host, TappedEndpoint** tapped = nullptr) {
  auto tap = std::make_unique<TappedEndpoint>(std::move(host->endpoint));
  if (tapped != nullptr) *tapped = tap.get();
  host->endpoint =
      std::make_unique<SealedEndpoint>(std::move(tap), SealedEndpoint::Unsealed::kNone);
  EXPECT_TRUE(host->endpoint->Protect(JobId(0), KeysWith('s')).ok());
}

TEST(SealedRegions, OnlyWhatLiesInSharedMemoryGoesUnsealed) {
  Host server, client;
  TappedEndpoint* tapped = nullptr;
  Seal(&server);
  Seal(&client, &tapped);
  const auto port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  seal::JobKeys keys = KeysWith('s');
  keys.own_address = absl::StrFormat("tcp://127.0.0.1:%d", *port);
  ASSERT_TRUE(server.endpoint->Protect(JobId(0), keys).ok());
  const ConnectionId up = *client.endpoint->Connect(absl::StrFormat("tcp://127.0.0.1:%d", *port));
  ASSERT_TRUE(client.endpoint->Send(up, client.MakeFrame(0)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  EXPECT_FALSE(server.events[0].frame.by_reference) << "before anybody was admitted";
  server.endpoint->Admit(server.events[0].connection, server.memory);
  client.endpoint->Admit(up, client.memory);
  bool is_shared = false;
  for (int i = 0; i < 200 && !is_shared; ++i) {
    server.events.clear();
    ASSERT_TRUE(client.endpoint->Send(up, client.MakeFrame(3)).ok());
    ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
    is_shared = IsShared(server.events[0].frame.payload);
    EXPECT_EQ(server.events[0].frame.payload.floats()[kFloats - 1], 3.0f);
  }
  ASSERT_TRUE(is_shared);
  EXPECT_TRUE(server.events[0].frame.by_reference);
  // As large, but elsewhere: it is encrypted.
  server.events.clear();
  const wire::Frame elsewhere = FrameOf(0, 5, std::string(kPayloadBytes, 'x'));
  ASSERT_TRUE(client.endpoint->Send(up, elsewhere).ok());
  EXPECT_NE(TextOf(tapped->sent().back()), TextOf(elsewhere));
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  ASSERT_EQ(server.events[0].kind, Event::Kind::kFrame) << server.events[0].error;
  EXPECT_FALSE(server.events[0].frame.by_reference);
  EXPECT_EQ(TextOf(server.events[0].frame), TextOf(elsewhere));
}

}  // namespace
}  // namespace strata::transport
