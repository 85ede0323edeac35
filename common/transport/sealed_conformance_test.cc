#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/testing/sealed_pair.h"
#include "common/transport/endpoint_conformance.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "common/transport/zmq/zmq_endpoint.h"

namespace strata::transport {
namespace {

// Sets its own address once that is known.
class NamedEndpoint final : public SealedEndpoint {
 public:
  NamedEndpoint(std::unique_ptr<Endpoint> inner, size_t waiting_max, const seal::JobKeys& keys)
      : SealedEndpoint(std::move(inner), Unsealed::kNone, waiting_max), keys_(keys) {
    EXPECT_TRUE(Protect(JobId(7), keys_).ok());
  }
  absl::StatusOr<int> Listen(const std::string& address) override {
    absl::StatusOr<int> port = SealedEndpoint::Listen(address);
    if (!port.ok()) return port;
    keys_.own_address = absl::StrCat("tcp://127.0.0.1:", *port);
    EXPECT_TRUE(Protect(JobId(7), keys_).ok());
    return port;
  }

 private:
  seal::JobKeys keys_;
};

// The same endpoints, sealed.
Implementation Sealed(Implementation plain, seal::Protection protection) {
  plain.tells_checksums = false;
  plain.create = [create = plain.create, protection](const Implementation::Limits& limits) {
    const size_t waiting_max = std::min(limits.queue_frames_max, SealedEndpoint::kWaitingMax);
    return std::make_unique<NamedEndpoint>(create(limits), waiting_max, KeysWith('s', protection));
  };
  return plain;
}

Implementation Simulated() {
  auto network = std::make_shared<SimNetwork>(7);
  network->set_faults({.delay_min = absl::ZeroDuration(), .delay_max = absl::Milliseconds(1)});
  return {.create =
              [network](const Implementation::Limits& limits) {
                SimEndpoint::Options options;
                options.payload_bytes_max = limits.payload_bytes_max;
                options.queue_bytes_max = limits.queue_bytes_max;
                options.queue_frames_max = limits.queue_frames_max;
                options.encode = true;
                return std::make_unique<SimEndpoint>(network.get(), options);
              },
          .now = [network] { return network->Now(); }};
}

Implementation Zmq() {
  return {.create = [](const Implementation::Limits& limits) {
    ZmqOptions options;
    options.payload_bytes_max = limits.payload_bytes_max;
    options.queue_bytes_max = limits.queue_bytes_max;
    options.queue_frames_max = limits.queue_frames_max;
    return *CreateZmqEndpoint(options);
  }};
}

using seal::Protection;

INSTANTIATE_TEST_SUITE_P(SealedSim, EndpointConformance,
                         testing::Values(Sealed(Simulated(), Protection::kEncrypt)));
INSTANTIATE_TEST_SUITE_P(SignedSim, EndpointConformance,
                         testing::Values(Sealed(Simulated(), Protection::kSign)));
INSTANTIATE_TEST_SUITE_P(SealedZmq, EndpointConformance,
                         testing::Values(Sealed(Zmq(), Protection::kEncrypt)));
INSTANTIATE_TEST_SUITE_P(SignedZmq, EndpointConformance,
                         testing::Values(Sealed(Zmq(), Protection::kSign)));

}  // namespace
}  // namespace strata::transport
