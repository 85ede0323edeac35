#include "common/transport/sealed/payload_seals.h"

#include <atomic>

#include "absl/types/span.h"

namespace strata::transport {
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
