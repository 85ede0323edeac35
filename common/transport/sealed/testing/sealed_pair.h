#ifndef STRATA_COMMON_TRANSPORT_SEALED_TESTING_SEALED_PAIR_H_
#define STRATA_COMMON_TRANSPORT_SEALED_TESTING_SEALED_PAIR_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/seal/job_keys.h"
#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/sealed/testing/tapped_endpoint.h"
#include "common/transport/sim/sim_network.h"

namespace strata::transport {

// Keys whose secret consists of this one byte.
seal::JobKeys KeysWith(char secret, seal::Protection protection = seal::Protection::kEncrypt,
                       uint32_t attempt = 0);
// A PUSHPULL of the job with `text` as its payload, whose size is a multiple of 4; or without one.
wire::Frame FrameOf(uint32_t job, uint64_t clock, const std::string& text);
std::string TextOf(const wire::Frame& frame);

// A sealed endpoint on a simulated network, what it has heard, and somebody on its way out.
struct SealedParty {
  SealedParty(SimNetwork* network, SealedEndpoint::Unsealed takes);

  // Takes the job's frames under these keys, as the one who listens at `address`.
  void Protect(uint32_t job, seal::JobKeys keys);
  // Connects to where `server` listens.
  ConnectionId ConnectTo(SealedParty* server);
  // The clocks of the frames that have come, in order.
  std::vector<uint64_t> Clocks() const;
  size_t Count(Event::Kind kind) const;

  TappedEndpoint* tapped = nullptr;
  std::unique_ptr<SealedEndpoint> endpoint;
  std::string address;
  std::vector<Event> events;
};

// A server and a client of job 7 on a network that does nothing beyond its contract.
class SealedPair : public testing::Test {
 protected:
  static constexpr uint32_t kJob = 7;

  SealedPair();
  // Lets all that is on its way arrive.
  void Settle();
  // Both have the keys, and the client has connected.
  void Join(const seal::JobKeys& keys = KeysWith('s'));

  SimNetwork network_{1};
  SealedParty server_{&network_, SealedEndpoint::Unsealed::kOfOtherJobs};
  SealedParty client_{&network_, SealedEndpoint::Unsealed::kNone};
  ConnectionId line_;  // the client's
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SEALED_TESTING_SEALED_PAIR_H_
