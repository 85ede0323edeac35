#include "common/image/rank_image_file.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata {
namespace {

// Where the fields lie.
constexpr size_t kMagicBytes = 8, kRankAt = 8, kClockAt = 16, kLengthAt = 24, kZerosAt = 32;

template <typename Number>
void Put(Number value, size_t at, std::string* head) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    (*head)[at + i] = static_cast<char>(value >> (8 * i));
  }
}

uint64_t Get(const Bytes& content, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<uint64_t>(content.data()[at + i]) << (8 * i);
  }
  return value;
}

}  // namespace

ImageFile MakeRankImageFile(const RankImage& image) {
  ImageFile file;
  file.head.assign(kRankImageHead, '\0');
  std::memcpy(file.head.data(), kRankImageMagic, kMagicBytes);
  Put<uint64_t>(image.rank, kRankAt, &file.head);
  Put<uint64_t>(image.clock, kClockAt, &file.head);
  Put<uint64_t>(image.state.size(), kLengthAt, &file.head);
  if (!image.state.empty()) file.values.push_back(image.state);
  return file;
}

absl::StatusOr<RankImage> ParseRankImageFile(const Bytes& content, const std::string& path) {
  const auto wrong = [&path](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  if (content.size() < kRankImageHead ||
      std::memcmp(content.data(), kRankImageMagic, kMagicBytes) != 0) {
    return wrong("is no state of a rank");
  }
  const uint64_t rank = Get(content, kRankAt, 8), length = Get(content, kLengthAt, 8);
  const bool has_zeros = std::all_of(content.data() + kZerosAt, content.data() + kRankImageHead,
                                     [](std::byte byte) { return byte == std::byte{0}; });
  if (rank > UINT32_MAX || !has_zeros) return wrong("its head has bytes that no version writes");
  if (length != content.size() - kRankImageHead) {
    return wrong(absl::StrFormat("has %d bytes of state, and says %d",
                                 content.size() - kRankImageHead, length));
  }
  return RankImage{.rank = static_cast<uint32_t>(rank),
                   .clock = Get(content, kClockAt, 8),
                   .state = content.Part(kRankImageHead, length)};
}

}  // namespace strata
