#include "server/shard/chunk/given_weights.h"

namespace strata::server {

void GivenWeights::GiveToAll(const kernels::WeightState& weights) {
  for (size_t node = 0; node < given_.size(); ++node) GiveTo(node, weights);
}

size_t GivenWeights::bytes(const kernels::WeightState& newest) const {
  size_t bytes = 0;
  for (const WeightVersion& one : given_) {
    if (one.version != newest.version()) bytes += one.weights.size();
  }
  return bytes;
}

}  // namespace strata::server
