#include "common/transport/region/region_exports.h"

#include <algorithm>
#include <utility>

namespace strata::transport {

absl::StatusOr<std::unique_ptr<RegionExports>> RegionExports::Create(
    std::shared_ptr<const RegionMemory> memory) {
  absl::StatusOr<std::shared_ptr<SharedSegment>> board = SharedSegment::Create(kBoardBytes);
  if (!board.ok()) return board.status();
  return std::make_unique<RegionExports>(std::move(memory), *std::move(board));
}

RegionExports::RegionExports(std::shared_ptr<const RegionMemory> memory,
                             std::shared_ptr<SharedSegment> board)
    : memory_(std::move(memory)), board_(std::move(board)), free_slots_(kSlots) {
  // The lowest first: the board then stays within a page or two.
  for (size_t i = 0; i < kSlots; ++i) free_slots_[i] = static_cast<uint32_t>(kSlots - 1 - i);
}

absl::StatusOr<UniqueFd> RegionExports::HandOverBoard() {
  absl::StatusOr<UniqueFd> fd = board_->Share(SharedSegment::Access::kReadWrite);
  board_->CloseDescriptor();
  return fd;
}

uint64_t RegionExports::TicketOn(uint32_t slot) const {
  const auto* tickets = reinterpret_cast<const std::atomic<uint64_t>*>(board_->data());
  return tickets[slot].load(std::memory_order_acquire);
}

std::optional<wire::RegionReference> RegionExports::Add(const Bytes& bytes) {
  Sweep();
  const std::optional<RegionMemory::SegmentOffset> place =
      memory_->Find(bytes.data(), bytes.size());
  if (!place || free_slots_.empty()) return std::nullopt;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  used_.push_back({slot, ++tickets_, bytes});
  return wire::RegionReference{.segment = place->segment,
                               .slot = slot,
                               .ticket = tickets_,
                               .offset = place->offset,
                               .bytes = bytes.size()};
}

void RegionExports::Sweep() {
  const auto gone = std::remove_if(used_.begin(), used_.end(), [&](const Used& used) {
    if (TicketOn(used.slot) != used.ticket) return false;
    free_slots_.push_back(used.slot);
    return true;
  });
  used_.erase(gone, used_.end());
}

}  // namespace strata::transport
