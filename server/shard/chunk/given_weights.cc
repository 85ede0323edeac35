#include "server/shard/chunk/given_weights.h"

#include "absl/strings/str_format.h"

namespace strata::server {

void GivenWeights::GiveToAll(const kernels::WeightState& weights) {
  for (size_t node = 0; node < given_.size(); ++node) GiveTo(node, weights);
}

void GivenWeights::AddTo(ChunkCopy* copy) const {
  for (const WeightVersion& one : given_) {
    proto::CopiedVersion* const given = copy->head.add_given();
    given->set_version(one.version);
    given->set_weights(copy->Add(one.weights));
  }
}

void GivenWeights::Restore(ChunkCopyReader* reader) {
  const auto& given = reader->head().given();
  if (static_cast<size_t>(given.size()) != given_.size()) {
    return reader->Fail(
        absl::StrFormat("weights given to %d nodes, of %d", given.size(), given_.size()));
  }
  for (size_t node = 0; node < given_.size(); ++node) {
    const proto::CopiedVersion& one = given[static_cast<int>(node)];
    const Bytes weights = reader->SomeFloats(one.weights(), "given weights");
    if (reader->ok()) given_[node] = {one.version(), weights};
  }
}

size_t GivenWeights::bytes(const kernels::WeightState& newest) const {
  size_t bytes = 0;
  for (const WeightVersion& one : given_) {
    if (one.version != newest.version()) bytes += one.weights.size();
  }
  return bytes;
}

}  // namespace strata::server
