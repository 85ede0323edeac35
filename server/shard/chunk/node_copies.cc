#include "server/shard/chunk/node_copies.h"

#include <utility>

#include "common/copy_floats.h"
#include "compression/encode_payload.h"

namespace strata::server {

NodeCopies::NodeCopies(const AnswerRules& rules, const kernels::Kernels& kernels, BufferPool& pool,
                       kernels::EncoderScratch* scratch, size_t nodes)
    : rules_(rules), kernels_(kernels), pool_(pool), scratch_(scratch) {
  if (encodes()) copies_.resize(rules.shared ? 1 : nodes);
}

void NodeCopies::Seed(const Bytes& first_weights, uint64_t version) {
  for (Copy& copy : copies_) {
    // The options are those of a valid job, the weights are finite: neither fails.
    copy.encoder =
        *kernels::Encoder::Create(rules_.compression, first_weights.float_count(), kernels_);
    copy.encoder
        ->Restore({absl::MakeConstSpan(first_weights.floats(), first_weights.float_count())})
        .IgnoreError();
    copy.last.version = version;
  }
}

absl::StatusOr<NodeCopies::Answer> NodeCopies::Next(size_t node, const Bytes& weights,
                                                    uint64_t version) {
  Copy& copy = copies_[rules_.shared ? 0 : node];
  if (rules_.shared && copy.answers > 0 && copy.last.version == version) return copy.last;
  if (rules_.shared && rules_.keeps_previous) previous_ = WholeCopy(node);
  absl::StatusOr<Bytes> payload = kernels::EncodePayload(
      copy.encoder.get(), absl::MakeConstSpan(weights.floats(), weights.float_count()), scratch_,
      pool_);
  if (!payload.ok()) return payload.status();
  copy.last = {copy.encoder->codec(), *std::move(payload), copy.answers++, version};
  if (rules_.shared) return copy.last;
  // Nobody else is given it.
  return Answer{copy.last.codec, std::exchange(copy.last.payload, Bytes()), copy.last.base,
                version};
}

NodeCopies::Answer NodeCopies::WholeCopy(size_t node) const {
  const Copy& copy = CopyFor(node);
  const absl::Span<const float> state = copy.encoder->State(0);
  const std::shared_ptr<float> floats =
      CopyFloats(CopyReason::kWholeCopy, pool_, state.data(), state.size());
  return {wire::Codec::kNone, AsBytes(floats, state.size()), copy.answers, copy.last.version};
}

size_t NodeCopies::bytes() const {
  size_t bytes = previous_.payload.size();
  for (const Copy& copy : copies_) {
    if (copy.encoder == nullptr) continue;
    bytes += copy.encoder->elements() * sizeof(float) + copy.last.payload.size();
  }
  return bytes;
}

}  // namespace strata::server
