#ifndef STRATA_TESTS_SIM_CLUSTER_EAVESDROPPER_H_
#define STRATA_TESTS_SIM_CLUSTER_EAVESDROPPER_H_

#include <map>
#include <string>
#include <vector>

#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"

namespace strata::sim {

class World;

// Somebody on the way who hears how connections begin, handshake and HELLO included, and says it
// all again over connections of his own. Only in runs whose jobs are all sealed: elsewhere he would
// evict nodes.
class Eavesdropper {
 public:
  explicit Eavesdropper(World* world);

 private:
  // What was said first over a connection to an address.
  struct Beginning {
    std::string address;
    std::vector<wire::Frame> frames;
  };

  void OnSent(const std::string& address, transport::ConnectionId connection,
              const wire::Frame& frame);
  void Repeat(const Beginning& heard);

  World* const world_;
  std::map<transport::ConnectionId, Beginning> heard_;
  transport::SimEndpoint endpoint_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_EAVESDROPPER_H_
