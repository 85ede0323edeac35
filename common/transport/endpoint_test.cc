#include "common/transport/endpoint.h"

#include "gtest/gtest.h"

namespace strata::transport {
namespace {

TEST(EndpointRefusals, EachHasItsOwnWords) {
  EndpointUse use;
  use.connections = 100;  // no refusals
  use.connections_max = 200;
  EXPECT_EQ(RefusalsOf(use), Refusals());
  use.refused = 1;
  use.silent = 2;
  use.late = 3;
  use.endless = 4;
  use.unsealed = 5;
  use.broken_seals = 6;
  use.wrong_secrets = 7;
  const Refusals expected = {{"over the limit of connections", 1},
                             {"connection without a message", 2},
                             {"no HELLO in time", 3},
                             {"message without end", 4},
                             {"frame without a seal", 5},
                             {"broken seal", 6},
                             {"wrong secret of a job", 7}};
  EXPECT_EQ(RefusalsOf(use), expected);
}

}  // namespace
}  // namespace strata::transport
