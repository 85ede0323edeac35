#ifndef STRATA_COMMON_TRANSPORT_ENDPOINT_CONFORMANCE_H_
#define STRATA_COMMON_TRANSPORT_ENDPOINT_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/transport/endpoint.h"

namespace strata::transport {

// The contract of every Endpoint. An implementation's test instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Zmq, EndpointConformance, testing::Values(Implementation{...}));
struct Implementation {
  struct Limits {
    uint64_t payload_bytes_max = 16 << 20;
    size_t queue_bytes_max = 64 << 20;
    size_t queue_frames_max = 4096;
  };
  std::function<std::unique_ptr<Endpoint>(const Limits&)> create;
  // The clock that Poll uses.
  std::function<absl::Time()> now = [] { return absl::Now(); };
  // Received headers have the payload's checksum.
  bool tells_checksums = true;
};

// An endpoint and the events that it has reported.
struct Party {
  std::unique_ptr<Endpoint> endpoint;
  std::vector<Event> events;

  void Poll(absl::Duration timeout) { endpoint->Poll(timeout, &events); }
  std::vector<Event> Of(Event::Kind kind) const;
};

class EndpointConformance : public testing::TestWithParam<Implementation> {
 protected:
  Party Create(const Implementation::Limits& limits = {}) const;
  // Listens at a free port; the address to connect to.
  std::string Listen(Party* party) const;
  // Polls the parties in turn until `done`; returns false if a generous deadline came first.
  static bool PollUntil(const std::vector<Party*>& parties, const std::function<bool()>& done);
  // Connects and exchanges one frame each way. Returns the ids on both sides.
  struct Link {
    ConnectionId client, server;
  };
  Link Join(Party* client, Party* server, const std::string& address) const;

  // A PUSHPULL with `floats` elements of value `clock`.
  static wire::Frame MakeFrame(uint64_t clock, size_t floats);
  // The header that it comes with.
  wire::Header ReceivedHeader(uint64_t clock, size_t floats) const;
  // An address where nobody listens.
  std::string ClosedAddress() const;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ENDPOINT_CONFORMANCE_H_
