#include "common/transport/region_session.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/require.h"

namespace strata::transport {
namespace {

// Limit of a peer's segment: sparse files may be as large as its machine's memory.
constexpr size_t kSegmentBytesMax = size_t{1} << 46;

}  // namespace

absl::Status RegionSession::Greet(uint64_t number, std::shared_ptr<const RegionMemory> memory) {
  STRATA_REQUIRE(exports_ == nullptr);
  RegionGreeting greeting = {.session = number, .descriptors = {}};
  for (const std::shared_ptr<SharedSegment>& segment : memory->segments()) {
    absl::StatusOr<UniqueFd> fd = segment->Share(SharedSegment::Access::kRead);
    if (!fd.ok()) return fd.status();
    greeting.descriptors.push_back(*std::move(fd));
  }
  absl::StatusOr<std::unique_ptr<RegionExports>> exports = RegionExports::Create(std::move(memory));
  if (!exports.ok()) return exports.status();
  absl::StatusOr<UniqueFd> board = (*exports)->HandOverBoard();
  if (!board.ok()) return board.status();
  greeting.descriptors.push_back(*std::move(board));
  exports_ = *std::move(exports);
  number_ = number;
  return SendGreeting(*line_, greeting);
}

absl::Status RegionSession::Hear() {
  absl::StatusOr<std::optional<RegionGreeting>> heard = TakeGreeting(*line_);
  if (!heard.ok()) return heard.status();
  if (!heard->has_value()) return absl::OkStatus();
  RegionGreeting& greeting = **heard;
  if (greeting.session == 0 || (number_ != 0 && greeting.session != number_)) {
    return absl::InvalidArgumentError("a peer of this host has greeted somebody else");
  }
  number_ = greeting.session;
  RegionImports::Parts parts;
  absl::StatusOr<std::shared_ptr<SharedSegment>> board =
      SharedSegment::Attach(std::move(greeting.descriptors.back()),
                            SharedSegment::Access::kReadWrite, RegionExports::kBoardBytes);
  if (!board.ok()) return board.status();
  if ((*board)->size() != RegionExports::kBoardBytes) {
    return absl::InvalidArgumentError("a peer's board has another size");
  }
  parts.board = *std::move(board);
  greeting.descriptors.pop_back();
  for (UniqueFd& fd : greeting.descriptors) {
    absl::StatusOr<std::shared_ptr<SharedSegment>> segment =
        SharedSegment::Attach(std::move(fd), SharedSegment::Access::kRead, kSegmentBytesMax);
    if (!segment.ok()) return segment.status();
    parts.segments.push_back(*std::move(segment));
  }
  imports_ = std::make_shared<RegionImports>(std::move(parts), line_);
  return absl::OkStatus();
}

void RegionSession::Refer(wire::Frame* frame) {
  const bool has_elements = frame->header.element_count != 0;
  if (!is_attached_ || !has_elements || frame->payload.size() < wire::kReferredBytesMin) return;
  const std::optional<wire::RegionReference> reference = exports_->Add(frame->payload);
  if (!reference) return;
  auto encoded = std::make_shared<std::array<std::byte, wire::kRegionReferenceBytes>>(
      wire::EncodeReference(*reference));
  frame->header.payload_kind = wire::PayloadKind::kRegion;
  frame->payload = Bytes(encoded, encoded->data(), encoded->size());
}

absl::Status RegionSession::Resolve(wire::Frame* frame) {
  if (imports_ == nullptr) return absl::InvalidArgumentError("REGION without shared memory");
  wire::RegionReference reference;
  const absl::Status decoded = wire::DecodeReference(
      frame->header, absl::MakeConstSpan(frame->payload.data(), frame->payload.size()), &reference);
  if (!decoded.ok()) return decoded;
  absl::StatusOr<Bytes> bytes = imports_->Take(reference);
  if (!bytes.ok()) return bytes.status();
  frame->payload = *std::move(bytes);
  frame->header.payload_kind = wire::PayloadKind::kInline;
  frame->header.payload_checksum = 0;
  frame->by_reference = true;
  frame->writable = nullptr;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RegionExports>> RegionExports::Create(
    std::shared_ptr<const RegionMemory> memory) {
  absl::StatusOr<std::shared_ptr<SharedSegment>> board = SharedSegment::Create(kBoardBytes);
  if (!board.ok()) return board.status();
  return std::make_unique<RegionExports>(std::move(memory), *std::move(board));
}

RegionExports::RegionExports(std::shared_ptr<const RegionMemory> memory,
                             std::shared_ptr<SharedSegment> board)
    : memory_(std::move(memory)), board_(std::move(board)), free_slots_(kSlots) {
  // Lowest first, so that the used part of the board stays within a page or two.
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
