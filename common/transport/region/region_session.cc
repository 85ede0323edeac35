#include "common/transport/region/region_session.h"

#include <array>
#include <utility>

#include "absl/types/span.h"

namespace strata::transport {
namespace {

// Of a peer's segment: sparse files may be as large as its machine's memory.
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

}  // namespace strata::transport
