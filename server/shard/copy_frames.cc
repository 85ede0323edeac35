#include "server/shard/copy_frames.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/bytes.h"

namespace strata::server {
namespace {

wire::Frame Part(const wire::Header& header, uint64_t number, Bytes payload) {
  wire::Frame frame;
  frame.header = header;
  frame.header.op = wire::Op::kCopy;
  frame.header.clock = number;
  frame.payload = std::move(payload);
  return frame;
}

absl::Status Refuse(const wire::Frame& frame, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrFormat("part %d of a copy of chunk %d: %s",
                                                    frame.header.clock, frame.header.chunk, why));
}

}  // namespace

std::vector<wire::Frame> CopyFrames(const ChunkCopy& copy, const wire::Header& header) {
  const auto head = std::make_shared<const std::string>(copy.head.SerializeAsString());
  std::vector<wire::Frame> frames;
  frames.push_back(
      Part(header, 0, Bytes(head, reinterpret_cast<const std::byte*>(head->data()), head->size())));
  for (const Bytes& vector : copy.vectors) frames.push_back(Part(header, frames.size(), vector));
  return frames;
}

absl::StatusOr<std::optional<ChunkCopy>> CopyCollector::Add(const wire::Frame& frame,
                                                            uint64_t bytes_max) {
  const uint64_t number = frame.header.clock;
  if (number == 0) {
    copy_ = {};
    chunk_ = frame.header.chunk;
    if (!copy_.head.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
      return Refuse(frame, "it is no ChunkCopy");
    }
    uint64_t left = bytes_max;
    for (const uint64_t bytes : copy_.head.vector_bytes()) {
      if (bytes > left) return Refuse(frame, "more than the chunk can have");
      left -= bytes;
    }
  } else {
    if (chunk_ != frame.header.chunk || number != copy_.vectors.size() + 1 ||
        number > static_cast<uint64_t>(copy_.head.vector_bytes_size())) {
      return Refuse(frame, "it is not the next one");
    }
    const uint64_t bytes = copy_.head.vector_bytes(static_cast<int>(number) - 1);
    if (frame.payload.size() != bytes) {
      return Refuse(frame, absl::StrFormat("%d bytes, not %d", frame.payload.size(), bytes));
    }
    copy_.vectors.push_back(frame.payload);
  }
  if (copy_.vectors.size() < static_cast<size_t>(copy_.head.vector_bytes_size())) {
    return std::nullopt;
  }
  chunk_.reset();
  return std::exchange(copy_, {});
}

uint64_t CopyCollector::bytes() const {
  uint64_t bytes = 0;
  for (const Bytes& vector : copy_.vectors) bytes += vector.size();
  return bytes;
}

size_t BackupFill::Missing(uint64_t acknowledged) const {
  const auto has = std::count_if(said_up_to_.begin(), said_up_to_.begin() + next_,
                                 [&](uint64_t last) { return last <= acknowledged; });
  return said_up_to_.size() - static_cast<size_t>(has);
}

}  // namespace strata::server
