#ifndef STRATA_COMMON_IMAGE_IMAGE_FILE_H_
#define STRATA_COMMON_IMAGE_IMAGE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/image/image_tensors.h"

namespace strata {

// A safetensors file of chunks' images. The tensors of the range that begins at element B are
// "B/weights", "B/state0" and so on, "B/copy", "B/mean_square"; "B" in the metadata has the counts,
// as JSON. "format" there is kImageFormat.
inline constexpr char kImageFormat[] = "strata-chunks-1";

// REQUIRES: the images' vectors are fp32, of one length in an image; no two images begin alike.
ImageFile MakeImageFile(absl::Span<const ChunkImage> images);

// Reads a file's content. The images' vectors are part of it, and keep it alive. They come in the
// order of their ranges.
// Errors: InvalidArgument naming `path` and what is wrong: no safetensors file, another format, an
// image that lacks a tensor or has one of another length, a count that is missing, ranges that
// overlap, NaN or infinity, values at an address that is not one of fp32.
absl::StatusOr<std::vector<ChunkImage>> ParseImageFile(const Bytes& content,
                                                       const std::string& path);

// What both readers of such files need.

// Returns one image: `begin` and `counts` are a name of the metadata and what it says. Errors: see
// ParseImageFile.
absl::StatusOr<ChunkImage> TakeImage(ImageReader* file, const std::string& begin,
                                     const std::string& counts);
// The range that begins there overlaps the next one.
absl::Status OverlapError(uint64_t begin, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_IMAGE_FILE_H_
