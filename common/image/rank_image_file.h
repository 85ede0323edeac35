#ifndef STRATA_COMMON_IMAGE_RANK_IMAGE_FILE_H_
#define STRATA_COMMON_IMAGE_RANK_IMAGE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/image/image_tensors.h"

namespace strata {

// What a rank keeps besides the job's weights, as its program gave it.
struct RankImage {
  uint32_t rank = 0;
  uint64_t clock = 0;  // of the checkpoint
  Bytes state;
};

// A file of a rank's state: kRankImageMagic; the rank, and a zero, in 4 bytes each; the clock and
// the state's length in 8 bytes each, all little-endian; zeros up to byte kRankImageHead; the
// state.
inline constexpr char kRankImageMagic[] = "STRANK01";
inline constexpr size_t kRankImageHead = 64;

ImageFile MakeRankImageFile(const RankImage& image);

// Reads a file's content. The state is part of it, and keeps it alive. Errors: InvalidArgument
// naming `path` and what is wrong.
absl::StatusOr<RankImage> ParseRankImageFile(const Bytes& content, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_RANK_IMAGE_FILE_H_
