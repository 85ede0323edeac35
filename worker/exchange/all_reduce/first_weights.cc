#include "worker/exchange/all_reduce/first_weights.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/require.h"

namespace strata::worker {
namespace {

constexpr size_t kChecksumsMax = 4096;  // per SEED

}  // namespace

void FirstWeights::Add(ChunkId chunk, const Bytes& weights) {
  std::optional<uint64_t>& known = known_[chunk.value()];
  STRATA_REQUIRE(!known.has_value());
  known = wire::PayloadChecksum(weights);
  ++added_;
}

bool FirstWeights::settled() const {
  if (added_ < known_.size()) return false;
  return are_of_rank_0_ || std::all_of(compared_.begin(), compared_.end(),
                                       [&](uint32_t count) { return count == known_.size(); });
}

std::vector<FirstWeights::Message> FirstWeights::Seeds() const {
  STRATA_REQUIRE(added_ == known_.size());
  std::vector<uint64_t> checksums;
  for (const std::optional<uint64_t>& checksum : known_) checksums.push_back(*checksum);
  std::vector<Message> messages;
  for (size_t first = 0; first < checksums.size(); first += kChecksumsMax) {
    const size_t count = std::min(kChecksumsMax, checksums.size() - first);
    const auto bytes = std::make_shared<std::vector<std::byte>>(
        wire::EncodeChecksums(absl::MakeConstSpan(checksums).subspan(first, count)));
    Message message{.header = {}, .payload = Bytes(bytes, bytes->data(), bytes->size())};
    message.header.op = wire::Op::kSeed;
    message.header.chunk = static_cast<uint32_t>(first);
    messages.push_back(std::move(message));
  }
  return messages;
}

absl::Status FirstWeights::OnSeed(size_t link, const std::string& peer, const wire::Frame& frame) {
  uint32_t& compared = compared_[link];
  const absl::Span<const std::byte> payload(frame.payload.data(), frame.payload.size());
  const size_t count = payload.size() / sizeof(uint64_t);
  if (are_of_rank_0_ || added_ < known_.size() || frame.header.chunk != compared ||
      count > known_.size() - compared) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: SEED of chunks %d to %d, but chunk %d of %d is due", peer, frame.header.chunk,
        frame.header.chunk + count - 1, compared, known_.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    if (wire::ChecksumAt(payload, i) != *known_[compared + i]) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s offers other first weights of chunk %d", peer, compared + i));
    }
  }
  compared += static_cast<uint32_t>(count);
  return absl::OkStatus();
}

FirstWeights::Message FirstWeights::First(ChunkId chunk, const Bytes& weights) const {
  Message message{.header = {}, .payload = weights};
  message.header.op = wire::Op::kFirst;
  message.header.chunk = chunk.value();
  message.header.element_count = map_.ElementsOf(chunk);
  return message;
}

absl::StatusOr<bool> FirstWeights::OnFirst(const std::string& peer, const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  if (!are_of_rank_0_ || header.chunk >= known_.size() ||
      header.element_count != map_.ElementsOf(ChunkId(header.chunk)) ||
      header.codec != wire::Codec::kNone) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s with %d elements as %s is not due", peer, wire::Describe(header),
                        header.element_count, wire::ToString(header.codec)));
  }
  const std::optional<uint64_t>& known = known_[header.chunk];
  if (!known) return true;
  if (*known == wire::PayloadChecksum(frame.payload)) return false;
  return absl::FailedPreconditionError(
      absl::StrFormat("%s gives other first weights of chunk %d", peer, header.chunk));
}

}  // namespace strata::worker
