#ifndef STRATA_SERVER_SHARD_WAITING_PULLS_H_
#define STRATA_SERVER_SHARD_WAITING_PULLS_H_

#include <cstddef>
#include <map>
#include <vector>

#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::server {

// Questions of nodes for weights of a clock that has not come yet; of each node one of a chunk at
// most: what it asks again takes the place of what it has asked before.
//
// Threads: one.
class WaitingPulls {
 public:
  struct Pull {
    transport::ConnectionId connection;
    size_t node = 0;
    wire::Frame frame;
  };

  void Add(size_t chunk, const Pull& pull);
  // Returns those of the chunk, in order of the nodes, which wait no more.
  std::vector<Pull> Take(size_t chunk);
  // The connection is gone: what was asked there is asked again elsewhere.
  void Forget(transport::ConnectionId connection);

 private:
  std::map<size_t, std::map<size_t, Pull>> chunks_;  // by node
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_WAITING_PULLS_H_
