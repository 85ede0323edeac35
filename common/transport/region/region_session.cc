#include "common/transport/region/region_session.h"

#include <array>
#include <utility>

#include "absl/types/span.h"

namespace strata::transport {
namespace {

// Of a peer's segment: sparse files may be as large as its machine's memory.
constexpr size_t kSegmentBytesMax = size_t{1} << 46;

}  // namespace

absl::StatusOr<std::unique_ptr<RegionSession>> RegionSession::Create(
    UniqueFd line, std::shared_ptr<const RegionMemory> memory) {
  absl::StatusOr<std::unique_ptr<RegionExports>> exports = RegionExports::Create(memory);
  if (!exports.ok()) return exports.status();
  return std::make_unique<RegionSession>(std::move(line), std::move(memory), *std::move(exports));
}

RegionSession::RegionSession(UniqueFd line, std::shared_ptr<const RegionMemory> memory,
                             std::unique_ptr<RegionExports> exports)
    : line_(std::make_shared<UniqueFd>(std::move(line))),
      memory_(std::move(memory)),
      exports_(std::move(exports)) {}

absl::Status RegionSession::Greet(uint64_t number) {
  RegionGreeting greeting = {.session = number, .descriptors = {}};
  for (const std::shared_ptr<SharedSegment>& segment : memory_->segments()) {
    absl::StatusOr<UniqueFd> fd = segment->Share(SharedSegment::Access::kRead);
    if (!fd.ok()) return fd.status();
    greeting.descriptors.push_back(*std::move(fd));
  }
  absl::StatusOr<UniqueFd> board = exports_->HandOverBoard();
  if (!board.ok()) return board.status();
  greeting.descriptors.push_back(*std::move(board));
  if (number != 0) number_ = number;
  return SendGreeting(*line_, greeting);
}

absl::Status RegionSession::Hear() {
  absl::StatusOr<std::optional<RegionGreeting>> heard = TakeGreeting(*line_);
  if (!heard.ok()) return heard.status();
  if (!heard->has_value()) return absl::OkStatus();
  RegionGreeting& greeting = **heard;
  if (greeting.session != 0) number_ = greeting.session;
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
  if (!is_attached_ || !has_elements || frame->payload.size() < kReferredBytesMin) return;
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
  return absl::OkStatus();
}

}  // namespace strata::transport
