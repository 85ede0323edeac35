#include "worker/client/arena_image.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/image/chunk_image.h"
#include "common/require.h"

namespace strata::client {

ArenaImage::ArenaImage(uint64_t elements, int states) : elements_(elements) {
  for (int i = 0; i < 1 + states; ++i) {
    vectors_.push_back(std::make_shared_for_overwrite<float[]>(elements));
  }
}

absl::StatusOr<ArenaImage> ArenaImage::Join(absl::Span<const ChunkImage> images, uint64_t elements,
                                            int states) {
  absl::StatusOr<ChunkImage> joined = JoinImages(images, 0, elements);
  if (!joined.ok()) return joined.status();
  const WeightImage& from = joined->weights;
  if (from.state.size() != static_cast<size_t>(states)) {
    return absl::DataLossError(
        absl::StrFormat("the checkpoint has %d vectors of optimizer state, the job's optimizer %d",
                        from.state.size(), states));
  }
  ArenaImage image(elements, states);
  image.samples_ = from.samples;
  std::memcpy(image.vector(0).data(), from.weights.data(), from.weights.size());
  for (int i = 0; i < states; ++i) {
    std::memcpy(image.vector(1 + i).data(), from.state[i].data(), from.state[i].size());
  }
  return image;
}

void ArenaImage::CopyFrom(const float* weights, const float* state0, const float* state1) {
  const float* const all[] = {weights, state0, state1};
  for (int i = 0; i < vectors(); ++i) {
    STRATA_REQUIRE(all[i] != nullptr);
    std::memcpy(vector(i).data(), all[i], elements_ * sizeof(float));
  }
}

void ArenaImage::CopyTo(float* weights, float* state0, float* state1) const {
  float* const all[] = {weights, state0, state1};
  for (int i = 0; i < vectors(); ++i) {
    STRATA_REQUIRE(all[i] != nullptr);
    std::memcpy(all[i], vector(i).data(), elements_ * sizeof(float));
  }
}

std::vector<ChunkImage> ArenaImage::Chunks(const ChunkMap& map, uint64_t steps,
                                           uint64_t samples) const {
  std::vector<Bytes> all;
  for (const std::shared_ptr<float[]>& vector : vectors_) {
    all.emplace_back(vector, reinterpret_cast<const std::byte*>(vector.get()),
                     elements_ * sizeof(float));
  }
  std::vector<ChunkImage> images;
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    const uint64_t begin = map.OffsetOf(ChunkId(c));
    const auto part = [&](const Bytes& vector) {
      return vector.Part(begin * sizeof(float), map.ElementsOf(ChunkId(c)) * sizeof(float));
    };
    ChunkImage image = {.begin = begin, .clock = steps};
    image.weights = {.version = steps, .updates = steps, .samples = samples};
    image.weights.weights = part(all[0]);
    for (size_t i = 1; i < all.size(); ++i) image.weights.state.push_back(part(all[i]));
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace strata::client
