#include "common/transport/region/region_imports.h"

#include <sys/socket.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/require.h"
#include "common/transport/region/region_exports.h"

namespace strata::transport {

RegionImports::RegionImports(Parts parts, std::shared_ptr<UniqueFd> line)
    : parts_(std::move(parts)), line_(std::move(line)) {
  STRATA_REQUIRE(parts_.board->size() >= RegionExports::kBoardBytes);
}

RegionImports::~RegionImports() { shutdown(line_->get(), SHUT_WR); }

absl::StatusOr<Bytes> RegionImports::Take(const wire::RegionReference& reference) {
  if (reference.segment >= parts_.segments.size() || reference.slot >= RegionExports::kSlots) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "reference to segment %d, slot %d, of %d segments and %d slots", reference.segment,
        reference.slot, parts_.segments.size(), RegionExports::kSlots));
  }
  const SharedSegment& segment = *parts_.segments[reference.segment];
  const bool fits =
      reference.offset <= segment.size() && reference.bytes <= segment.size() - reference.offset;
  if (!fits || reference.offset % alignof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("reference to %d bytes at %d of a segment of %d bytes", reference.bytes,
                        reference.offset, segment.size()));
  }
  const std::byte* data = segment.data() + reference.offset;
  std::shared_ptr<const void> owner(
      data, [imports = shared_from_this(), slot = reference.slot,
             ticket = reference.ticket](const void*) { imports->Release(slot, ticket); });
  return Bytes(std::move(owner), data, reference.bytes);
}

void RegionImports::Release(uint32_t slot, uint64_t ticket) {
  auto* tickets = reinterpret_cast<std::atomic<uint64_t>*>(parts_.board->data());
  tickets[slot].store(ticket, std::memory_order_release);
}

}  // namespace strata::transport
