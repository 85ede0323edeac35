#include "common/transport/sealed_line.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/bytes.h"

namespace strata::transport {
namespace {

static_assert(wire::kSealBytes == seal::kSealBytes);

// Returns the part of a header that is the same at both ends.
std::array<std::byte, wire::kHeaderBytes> SealedPart(wire::Header header, size_t payload_bytes) {
  header.payload_kind = wire::PayloadKind::kInline;
  header.payload_checksum = 0;
  return wire::EncodeHeader(header, payload_bytes);
}

}  // namespace

SealedLine::SealedLine(const seal::Handshake& handshake, JobId job, seal::Protection protection,
                       const seal::Secret& payload_secret)
    : job_(job),
      protection_(protection),
      sealer_(handshake.send_key()),
      opener_(handshake.receive_key()),
      payload_opener_(payload_secret, handshake.peer_salt(), protection) {}

std::array<std::byte, wire::kSealBytes> SealedLine::Seal(const wire::Header& header,
                                                         size_t payload_bytes,
                                                         const seal::PayloadSeal& payload) {
  return seal::EncodeSeal(payload, sealer_.Next(SealedPart(header, payload_bytes), payload));
}

absl::Status SealedLine::Open(BufferPool* pool, wire::Frame* frame) {
  if (!frame->seal) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s came without a seal", wire::ToString(frame->header.op)));
  }
  seal::PayloadSeal payload;
  seal::Tag tag;
  absl::Status status = seal::DecodeSeal(*frame->seal, &payload, &tag);
  if (status.ok()) {
    status = opener_.Check(SealedPart(frame->header, frame->payload.size()), payload, tag);
  }
  if (!status.ok()) return status;
  if (frame->header.job != job_.value()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("job %d over a connection of job %d", frame->header.job, job_.value()));
  }
  frame->seal.reset();
  return OpenPayload(payload, pool, frame);
}

absl::Status SealedLine::OpenPayload(const seal::PayloadSeal& payload, BufferPool* pool,
                                     wire::Frame* frame) {
  const Bytes& sealed = frame->payload;
  const bool has_own_seal = !sealed.empty() && !frame->by_reference;
  if (has_own_seal != (payload.number != 0)) {
    return absl::InvalidArgumentError(has_own_seal ? "the payload came without a seal"
                                                   : "a seal of no payload");
  }
  if (!has_own_seal) return absl::OkStatus();
  const absl::Span<const std::byte> bytes(sealed.data(), sealed.size());
  std::byte* const in_place = std::exchange(frame->writable, nullptr);
  if (protection_ == seal::Protection::kSign) {
    return payload_opener_.Open(bytes, payload, nullptr);
  }
  if (in_place == sealed.data()) return payload_opener_.Open(bytes, payload, in_place);
  const std::shared_ptr<std::byte> opened = pool->AllocateBytes(sealed.size());
  if (absl::Status right = payload_opener_.Open(bytes, payload, opened.get()); !right.ok()) {
    return right;
  }
  frame->payload = Bytes(opened, opened.get(), bytes.size());
  return absl::OkStatus();
}

namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

PayloadSeals::PayloadSeals(seal::Protection protection, const seal::Secret& secret)
    : id_(NextId()),
      protection_(protection),
      salt_(seal::NewSalt()),
      sealer_(secret, salt_, protection) {}

std::shared_ptr<const SealedPayload> PayloadSeals::Of(const Bytes& payload, BufferPool* pool) {
  if (const auto made = std::dynamic_pointer_cast<const SealedPayload>(payload.known_made());
      made != nullptr && made->sealer == id_) {
    return made;
  }
  auto sealed = std::make_shared<SealedPayload>();
  sealed->sealer = id_;
  const absl::Span<const std::byte> bytes(payload.data(), payload.size());
  if (protection_ == seal::Protection::kSign) {
    sealed->seal = sealer_.Seal(bytes, nullptr);
    sealed->bytes = payload;
  } else {
    const std::shared_ptr<std::byte> buffer = pool->AllocateBytes(payload.size());
    sealed->seal = sealer_.Seal(bytes, buffer.get());
    sealed->bytes = Bytes(buffer, buffer.get(), payload.size());
  }
  payload.RememberMade(sealed);
  return sealed;
}

}  // namespace strata::transport
