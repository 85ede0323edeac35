#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/transport/endpoint_conformance.h"
#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/sealed/testing/sealed_pair.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "common/transport/zmq/zmq_endpoint.h"

namespace strata::transport {
namespace {

// The same endpoints, sealed.
Implementation Sealed(Implementation plain, seal::Protection protection) {
  plain.tells_checksums = protection == seal::Protection::kSign;
  plain.create = [create = plain.create, protection](const Implementation::Limits& limits) {
    const size_t waiting_max = std::min(limits.queue_frames_max, SealedEndpoint::kWaitingMax);
    auto endpoint = std::make_unique<SealedEndpoint>(create(limits),
                                                     SealedEndpoint::Unsealed::kNone, waiting_max);
    EXPECT_TRUE(endpoint->Protect(JobId(7), KeysWith('s', protection)).ok());
    return endpoint;
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
