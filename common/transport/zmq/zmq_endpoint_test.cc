#include "common/transport/zmq/zmq_endpoint.h"

#include <gtest/gtest.h>

#include "common/transport/endpoint_conformance.h"

namespace strata::transport {
namespace {

std::unique_ptr<Endpoint> Create(const Implementation::Limits& limits) {
  ZmqOptions options;
  options.payload_bytes_max = limits.payload_bytes_max;
  options.queue_bytes_max = limits.queue_bytes_max;
  options.queue_frames_max = limits.queue_frames_max;
  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = CreateZmqEndpoint(options);
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return *std::move(endpoint);
}

INSTANTIATE_TEST_SUITE_P(Zmq, EndpointConformance, testing::Values(Implementation{&Create}));

}  // namespace
}  // namespace strata::transport
