#ifndef STRATA_COMMON_IMAGE_IMAGE_FILE_H_
#define STRATA_COMMON_IMAGE_IMAGE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/image/image_tensors.h"
#include "common/image/node_image.h"
#include "common/image/safetensors.h"

namespace strata {

// A safetensors file of chunks' images. The tensors of the range that begins at element B are
// "B/weights", "B/state0" and so on, "B/copy", "B/mean_square"; "B" in the metadata has the counts,
// as JSON. "format" there is kImageFormat.
inline constexpr char kImageFormat[] = "strata-chunks-1";

// REQUIRES: the images' vectors are fp32, of one length in an image; all images begin at different
// elements.
ImageFile MakeImageFile(absl::Span<const ChunkImage> images);

// Parses a file's content. The images' vectors are part of it, and keep it alive. They are in the
// order of their ranges. Errors: InvalidArgument naming `path` and what is wrong: not a safetensors
// file, another format, an image that lacks a tensor or has one of another length, a missing count,
// overlapping ranges, NaN or infinity, values that are misaligned for fp32.
absl::StatusOr<std::vector<ChunkImage>> ParseImageFile(const Bytes& content,
                                                       const std::string& path);

// Shared by both readers of such files.

// Returns one image: `begin` and `counts` are a name and its value in the metadata. Errors: see
// ParseImageFile.
absl::StatusOr<ChunkImage> TakeImage(ImageReader* file, const std::string& begin,
                                     const std::string& counts);
// Error: the range that begins there overlaps the next one.
absl::Status OverlapError(uint64_t begin, const std::string& path);

// Parses a file of chunks' images while it is being read, so that it need not be in memory as a
// whole: complete images are passed on, with memory of their own. Files, images and errors are
// those of ParseImageFile; but an error may show after earlier images have been passed on.
//
// Threads: one.
class ImageStream {
 public:
  // `bytes`: of the whole file.
  ImageStream(uint64_t bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  // Takes the file's next bytes, and adds the images that are complete now. Errors:
  // InvalidArgument, ResourceExhausted (no memory). REQUIRES: at most the whole file, none after an
  // error.
  absl::Status Take(absl::Span<const char> bytes, std::vector<ChunkImage>* images);
  // The file has ended. Errors: InvalidArgument.
  absl::Status Finish();

 private:
  // An image being read.
  struct Image {
    std::string counts;
    size_t tensors = 0;  // in the file
    std::vector<std::pair<std::string, Bytes>> floats;
  };

  // Adds to the head; parses it once it is complete.
  absl::Status TakeHead(absl::Span<const char>* bytes);
  absl::Status ReadHead();
  // Adds to the values of the next tensor.
  absl::Status TakeValues(absl::Span<const char>* bytes, std::vector<ChunkImage>* images);
  absl::Status Complete(const TensorPlace& tensor, std::vector<ChunkImage>* images);

  const uint64_t bytes_;
  const std::string path_;
  uint64_t taken_ = 0;
  std::string head_;
  uint64_t head_bytes_ = 0;  // 0: not known yet
  bool has_layout_ = false;
  std::vector<TensorPlace> tensors_;
  size_t next_ = 0;  // of those
  std::shared_ptr<std::byte> values_;
  uint64_t filled_ = 0;
  std::map<std::string, Image> images_;                // by their name in the file
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // begin and elements of the images passed on
};

// A safetensors file of a node's image. The tensors of the range that begins at element B are
// "B/unsent0" and so on, "B/local/weights", "B/local/state0", "B/local/start", "B/norms/weights",
// "B/norms/state0", "B/arena"; "B" in the metadata has the counts, as JSON, and "node" the node's.
// "format" there is kNodeImageFormat.
inline constexpr char kNodeImageFormat[] = "strata-node-1";

// REQUIRES: the vectors of a range are fp32, of its length; all ranges begin at different elements.
ImageFile MakeNodeImageFile(const NodeImage& image);

// Parses a file's content. The vectors are part of it, and keep it alive. Ranges are in order.
// Errors: InvalidArgument naming `path` and what is wrong, as ParseImageFile.
absl::StatusOr<NodeImage> ParseNodeImageFile(const Bytes& content, const std::string& path);

// A rank's own state besides the job's weights, as its program gave it.
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

// Parses a file's content. The state is part of it, and keeps it alive. Errors: InvalidArgument
// naming `path` and what is wrong.
absl::StatusOr<RankImage> ParseRankImageFile(const Bytes& content, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_IMAGE_FILE_H_
