#ifndef STRATA_SERVER_SHARD_WAITING_PULLS_H_
#define STRATA_SERVER_SHARD_WAITING_PULLS_H_

#include <cstddef>
#include <map>
#include <vector>

#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::server {

// Requests of nodes for weights of a clock that has not come yet. A node has at most one per chunk:
// a later request replaces an earlier one.
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
  // Removes and returns those of the chunk, in order of the nodes.
  std::vector<Pull> Take(size_t chunk);
  // The connection is gone: the node repeats its request elsewhere.
  void Forget(transport::ConnectionId connection);

 private:
  std::map<size_t, std::map<size_t, Pull>> chunks_;  // by node
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_WAITING_PULLS_H_
