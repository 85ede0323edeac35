#include "server/shard/node_copies.h"

#include <cstring>
#include <utility>

namespace strata::server {

NodeCopies::NodeCopies(const AnswerRules& rules, const kernels::Kernels& kernels, BufferPool& pool,
                       kernels::EncoderScratch* scratch, size_t nodes)
    : rules_(rules), kernels_(kernels), pool_(pool), scratch_(scratch) {
  if (encodes()) copies_.resize(rules.shared ? 1 : nodes);
}

void NodeCopies::Seed(const Bytes& first_weights) {
  for (Copy& copy : copies_) {
    // The options are those of a valid job, the weights are finite: neither fails.
    copy.encoder =
        *kernels::Encoder::Create(rules_.compression, first_weights.float_count(), kernels_);
    copy.encoder
        ->Restore({absl::MakeConstSpan(first_weights.floats(), first_weights.float_count())})
        .IgnoreError();
  }
}

absl::StatusOr<Bytes> NodeCopies::Encode(kernels::Encoder* encoder, const Bytes& weights) const {
  const size_t room = encoder->encoded_bytes_max();
  std::shared_ptr<std::byte> payload = pool_.AllocateBytes(room);
  const absl::StatusOr<size_t> size =
      encoder->Encode(absl::MakeConstSpan(weights.floats(), weights.float_count()), scratch_,
                      absl::MakeSpan(payload.get(), room));
  if (!size.ok()) return size.status();
  if (*size < room) {
    // Sparse payloads are far smaller than the largest one.
    const std::shared_ptr<std::byte> exact = pool_.AllocateBytes(*size);
    std::memcpy(exact.get(), payload.get(), *size);
    payload = exact;
  }
  return Bytes(payload, payload.get(), *size);
}

absl::StatusOr<NodeCopies::Answer> NodeCopies::Next(size_t node, const Bytes& weights,
                                                    uint64_t version) {
  Copy& copy = copies_[rules_.shared ? 0 : node];
  if (rules_.shared && copy.answers > 0 && copy.last.version == version) return copy.last;
  absl::StatusOr<Bytes> payload = Encode(copy.encoder.get(), weights);
  if (!payload.ok()) return payload.status();
  copy.last = {copy.encoder->codec(), *std::move(payload), copy.answers++, version};
  if (rules_.shared) return copy.last;
  // Nobody else is given it.
  return Answer{copy.last.codec, std::exchange(copy.last.payload, Bytes()), copy.last.base,
                version};
}

NodeCopies::Answer NodeCopies::Whole(size_t node) const {
  const Copy& copy = Of(node);
  const absl::Span<const float> state = copy.encoder->State(0);
  const std::shared_ptr<float> floats = pool_.AllocateFloats(state.size());
  std::memcpy(floats.get(), state.data(), state.size() * sizeof(float));
  return {wire::Codec::kNone, AsBytes(floats, state.size()), copy.answers, copy.last.version};
}

size_t NodeCopies::bytes() const {
  size_t bytes = 0;
  for (const Copy& copy : copies_) {
    if (copy.encoder == nullptr) continue;
    bytes += copy.encoder->elements() * sizeof(float) + copy.last.payload.size();
  }
  return bytes;
}

}  // namespace strata::server
