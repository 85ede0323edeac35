#ifndef STRATA_COMMON_IMAGE_NODE_IMAGE_FILE_H_
#define STRATA_COMMON_IMAGE_NODE_IMAGE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/image/image_tensors.h"
#include "common/image/node_image.h"

namespace strata {

// A safetensors file of a node's image. The tensors of the range that begins at element B are
// "B/unsent0" and so on, "B/local/weights", "B/local/state0", "B/local/start", "B/norms/weights",
// "B/norms/state0", "B/arena"; "B" in the metadata has the counts, as JSON, and "node" the node's.
// "format" there is kNodeImageFormat.
inline constexpr char kNodeImageFormat[] = "strata-node-1";

// REQUIRES: the vectors of a range are fp32, of its length; no two ranges begin alike.
ImageFile MakeNodeImageFile(const NodeImage& image);

// Reads a file's content. The vectors are part of it, and keep it alive. Ranges come in order.
// Errors: InvalidArgument naming `path` and what is wrong, as ParseImageFile.
absl::StatusOr<NodeImage> ParseNodeImageFile(const Bytes& content, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_NODE_IMAGE_FILE_H_
