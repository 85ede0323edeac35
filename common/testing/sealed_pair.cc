#include "common/testing/sealed_pair.h"

#include <algorithm>
#include <utility>

#include "common/transport/sim/sim_endpoint.h"

namespace strata::transport {

seal::JobKeys KeysWith(char secret, seal::Protection protection, uint32_t attempt) {
  seal::JobKeys keys;
  keys.protection = protection;
  keys.secret.fill(static_cast<std::byte>(secret));
  keys.attempt = attempt;
  return keys;
}

wire::Frame FrameOf(uint32_t job, uint64_t clock, const std::string& text) {
  const auto bytes = std::make_shared<std::string>(text);
  wire::Frame frame;
  frame.header.op = wire::Op::kPushPull;
  frame.header.job = job;
  frame.header.clock = clock;
  frame.header.element_count = static_cast<uint32_t>(text.size() / sizeof(float));
  frame.payload = Bytes(bytes, reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
  return frame;
}

std::string TextOf(const wire::Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
}

SealedParty::SealedParty(SimNetwork* network, SealedEndpoint::Unsealed takes) {
  SimEndpoint::Options options;
  options.encode = true;
  auto tap = std::make_unique<TappedEndpoint>(std::make_unique<SimEndpoint>(network, options));
  tapped = tap.get();
  endpoint = std::make_unique<SealedEndpoint>(std::move(tap), takes);
}

void SealedParty::Protect(uint32_t job, seal::JobKeys keys) {
  keys.own_address = address;
  EXPECT_TRUE(endpoint->Protect(JobId(job), keys).ok());
}

ConnectionId SealedParty::ConnectTo(SealedParty* server) {
  const absl::StatusOr<ConnectionId> connected = endpoint->Connect(server->address);
  EXPECT_TRUE(connected.ok()) << connected.status();
  return *connected;
}

std::vector<uint64_t> SealedParty::Clocks() const {
  std::vector<uint64_t> clocks;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kFrame) clocks.push_back(event.frame.header.clock);
  }
  return clocks;
}

size_t SealedParty::Count(Event::Kind kind) const {
  return std::count_if(events.begin(), events.end(),
                       [&](const Event& event) { return event.kind == kind; });
}

SealedPair::SealedPair() {
  server_.address = "tcp://127.0.0.1:500";
  EXPECT_TRUE(server_.endpoint->Listen(server_.address).ok());
}

void SealedPair::Settle() {
  for (int i = 0; i < 20; ++i) {
    client_.endpoint->Poll(absl::Milliseconds(2), &client_.events);
    server_.endpoint->Poll(absl::Milliseconds(2), &server_.events);
  }
}

void SealedPair::Join(const seal::JobKeys& keys) {
  server_.Protect(kJob, keys);
  client_.Protect(kJob, keys);
  line_ = client_.ConnectTo(&server_);
  Settle();
}

}  // namespace strata::transport
