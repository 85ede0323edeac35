#include "common/image/chunk_image.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata {
namespace {

// A part of an image.
struct Piece {
  const ChunkImage* image = nullptr;
  uint64_t first = 0;  // of the image's elements
  uint64_t count = 0;
};

absl::Status Lacks(uint64_t element) {
  return absl::DataLossError(absl::StrFormat("no image has element %d", element));
}

absl::StatusOr<std::vector<Piece>> PiecesOf(absl::Span<const ChunkImage> images, uint64_t begin,
                                            uint64_t end) {
  std::vector<Piece> pieces;
  uint64_t at = begin;
  for (const ChunkImage& image : images) {
    const uint64_t image_end = image.begin + image.weights.weights.float_count();
    if (image_end <= at || at == end) continue;
    if (image.begin > at) return Lacks(at);
    const uint64_t to = std::min(image_end, end);
    pieces.push_back({&image, at - image.begin, to - at});
    at = to;
  }
  if (at < end) return Lacks(at);
  return pieces;
}

absl::Status ExpectAlike(const std::vector<Piece>& pieces) {
  const ChunkImage& first = *pieces[0].image;
  for (const Piece& piece : pieces) {
    const ChunkImage& other = *piece.image;
    const bool is_alike =
        other.clock == first.clock && other.weights.version == first.weights.version &&
        other.weights.updates == first.weights.updates &&
        other.weights.samples == first.weights.samples &&
        other.weights.state.size() == first.weights.state.size() &&
        other.applied == first.applied && other.copy.empty() == first.copy.empty() &&
        other.mean_square.empty() == first.mean_square.empty();
    if (is_alike) continue;
    return absl::DataLossError(absl::StrFormat("the images of elements %d and %d have other counts",
                                               first.begin, other.begin));
  }
  return absl::OkStatus();
}

// Empty vectors stand for zeros, unless all are empty; ExpectAlike says which may be.
Bytes Joined(const std::vector<Piece>& pieces,
             const std::function<const Bytes&(const ChunkImage&)>& vector) {
  uint64_t count = 0;
  bool is_there = false;
  for (const Piece& piece : pieces) {
    count += piece.count;
    is_there |= !vector(*piece.image).empty();
  }
  if (!is_there) return Bytes();
  if (pieces.size() == 1) {
    return vector(*pieces[0].image)
        .Part(pieces[0].first * sizeof(float), pieces[0].count * sizeof(float));
  }
  const auto joined = std::make_shared<std::vector<float>>(count);
  float* to = joined->data();
  for (const Piece& piece : pieces) {
    const Bytes& from = vector(*piece.image);
    if (!from.empty()) std::memcpy(to, from.floats() + piece.first, piece.count * sizeof(float));
    to += piece.count;
  }
  return Bytes(joined, reinterpret_cast<const std::byte*>(joined->data()), count * sizeof(float));
}

}  // namespace

absl::StatusOr<ChunkImage> JoinImages(absl::Span<const ChunkImage> images, uint64_t begin,
                                      uint64_t elements) {
  const absl::StatusOr<std::vector<Piece>> pieces = PiecesOf(images, begin, begin + elements);
  if (!pieces.ok()) return pieces.status();
  if (pieces->empty()) return absl::DataLossError("no elements are asked for");
  if (absl::Status alike = ExpectAlike(*pieces); !alike.ok()) return alike;
  const ChunkImage& first = *(*pieces)[0].image;
  ChunkImage joined = {.begin = begin, .clock = first.clock, .applied = first.applied};
  joined.weights = {.version = first.weights.version,
                    .updates = first.weights.updates,
                    .samples = first.weights.samples};
  joined.weights.weights = Joined(
      *pieces, [](const ChunkImage& image) -> const Bytes& { return image.weights.weights; });
  for (size_t v = 0; v < first.weights.state.size(); ++v) {
    joined.weights.state.push_back(Joined(
        *pieces, [v](const ChunkImage& image) -> const Bytes& { return image.weights.state[v]; }));
  }
  joined.weights.missed =
      Joined(*pieces, [](const ChunkImage& image) -> const Bytes& { return image.weights.missed; });
  joined.copy = Joined(*pieces, [](const ChunkImage& image) -> const Bytes& { return image.copy; });
  joined.mean_square =
      Joined(*pieces, [](const ChunkImage& image) -> const Bytes& { return image.mean_square; });
  return joined;
}

}  // namespace strata
