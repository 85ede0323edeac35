#include "common/transport/sim/sim_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/transport/endpoint_conformance.h"
#include "common/transport/sim/sim_network.h"

namespace strata::transport {
namespace {

using Kind = Event::Kind;

// Endpoints of one network that does nothing beyond the contract.
Implementation Simulated(bool encode, absl::Duration delay_max) {
  auto network = std::make_shared<SimNetwork>(7);
  network->set_faults({.delay_min = absl::ZeroDuration(), .delay_max = delay_max});
  return {.create =
              [network, encode](const Implementation::Limits& limits) {
                SimEndpoint::Options options;
                options.payload_bytes_max = limits.payload_bytes_max;
                options.queue_bytes_max = limits.queue_bytes_max;
                options.queue_frames_max = limits.queue_frames_max;
                options.encode = encode;
                return std::make_unique<SimEndpoint>(network.get(), options);
              },
          .now = [network] { return network->Now(); }};
}

INSTANTIATE_TEST_SUITE_P(SimObjects, EndpointConformance,
                         testing::Values(Simulated(false, absl::Milliseconds(1))));
INSTANTIATE_TEST_SUITE_P(SimBytes, EndpointConformance,
                         testing::Values(Simulated(true, absl::ZeroDuration())));

}  // namespace
}  // namespace strata::transport
