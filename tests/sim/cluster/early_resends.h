#ifndef STRATA_TESTS_SIM_CLUSTER_EARLY_RESENDS_H_
#define STRATA_TESTS_SIM_CLUSTER_EARLY_RESENDS_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "common/ids.h"
#include "common/transport/sim/sim_network.h"
#include "common/wire/frame.h"

namespace strata::sim {

// Finds pushes that reach a shard again although no answer could have been back: the node has
// repeated them, over the same connection, before the first had arrived. Where the network itself
// has doubled, lost or held back the push, it does not count.
class EarlyResends {
 public:
  // Told of all frames. True: here is one.
  bool See(transport::SimNote note, transport::ConnectionId receiver, const wire::Header& header) {
    using transport::SimNote;
    if (header.op != wire::Op::kPushPull) return false;
    Push& push = pushes_[{receiver, header.chunk, header.clock}];
    switch (note) {
      case SimNote::kSent:
        push.is_early = push.is_early || (push.sent == 1 && push.delivered == 0);
        ++push.sent;
        return false;
      case SimNote::kDelivered:
        return ++push.delivered == 2 && push.is_early && !push.is_disturbed;
      default:  // doubled, dropped, late
        push.is_disturbed = true;
        return false;
    }
  }

 private:
  struct Push {
    uint32_t sent = 0, delivered = 0;
    bool is_early = false, is_disturbed = false;
  };
  std::map<std::tuple<transport::ConnectionId, uint32_t, uint64_t>, Push> pushes_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_EARLY_RESENDS_H_
