#include "server/shard/chunk/node_copies.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "numerics/encoder.h"

namespace strata::server {

NodeCopies::NodeCopies(const AnswerRules& rules, const kernels::Kernels& kernels, BufferPool& pool,
                       numerics::EncoderScratch* scratch, size_t nodes)
    : rules_(rules), kernels_(kernels), pool_(pool), scratch_(scratch) {
  if (encodes()) copies_.resize(rules.shared ? 1 : nodes);
}

void NodeCopies::Seed(const Bytes& first_weights, uint64_t version) {
  for (Copy& copy : copies_) {
    // Neither fails: the options are those of a valid job, and the weights are finite.
    copy.encoder =
        *numerics::Encoder::Create(rules_.compression, first_weights.float_count(), kernels_);
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
  if (std::exchange(copy.begins_anew, false)) {
    absl::Status taken =
        copy.encoder->Restore({absl::MakeConstSpan(weights.floats(), weights.float_count())});
    if (!taken.ok()) return taken;
    copy.last = {wire::Codec::kNone, Bytes(), copy.answers, version};
    return Answer{wire::Codec::kNone, weights, copy.answers, version};
  }
  if (rules_.shared && rules_.keeps_previous) previous_ = WholeCopy(node);
  absl::StatusOr<Bytes> payload = numerics::EncodePayload(
      copy.encoder.get(), absl::MakeConstSpan(weights.floats(), weights.float_count()), scratch_,
      pool_);
  if (!payload.ok()) return payload.status();
  copy.last = {copy.encoder->codec(), *std::move(payload), copy.answers++, version};
  if (rules_.shared) return copy.last;
  // No other node gets it.
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

void NodeCopies::AddTo(ChunkCopy* copy) const {
  for (const Copy& one : copies_) {
    const absl::Span<const float> state = one.encoder->State(0);
    const std::shared_ptr<float> floats =
        CopyFloats(CopyReason::kWholeCopy, pool_, state.data(), state.size());
    proto::CopiedAnswers* const answers = copy->head.add_answers();
    answers->set_copy(copy->Add(AsBytes(floats, state.size())));
    answers->set_answers(one.answers);
    answers->set_codec(static_cast<uint32_t>(one.last.codec));
    answers->set_payload(copy->Add(one.last.payload));
    answers->set_base(one.last.base);
    answers->set_version(one.last.version);
  }
  if (previous_.payload.empty()) return;
  proto::CopiedAnswers* const before = copy->head.mutable_answers_before();
  before->set_copy(copy->Add(previous_.payload));
  before->set_base(previous_.base);
  before->set_version(previous_.version);
}

void NodeCopies::Restore(ChunkCopyReader* reader) {
  const auto& answers = reader->head().answers();
  if (static_cast<size_t>(answers.size()) != copies_.size()) {
    return reader->Fail(
        absl::StrFormat("%d copies of encoded weights, not %d", answers.size(), copies_.size()));
  }
  for (size_t i = 0; i < copies_.size(); ++i) {
    const proto::CopiedAnswers& from = answers[static_cast<int>(i)];
    const Bytes has = reader->SomeFloats(from.copy(), "what nodes have");
    if (from.codec() >= static_cast<uint32_t>(wire::kCodecs)) reader->Fail("an unknown codec");
    if (!reader->ok()) return;
    reader->Fail(
        copies_[i].encoder->Restore({absl::MakeConstSpan(has.floats(), has.float_count())}));
    copies_[i].answers = from.answers();
    copies_[i].last = {static_cast<wire::Codec>(from.codec()),
                       reader->Vector(from.payload(), "an answer"), from.base(), from.version()};
  }
  if (!reader->head().has_answers_before()) return;
  const proto::CopiedAnswers& before = reader->head().answers_before();
  previous_ = {wire::Codec::kNone, reader->SomeFloats(before.copy(), "what nodes had"),
               before.base(), before.version()};
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
