#include "server/shard/sum/ring_accumulator.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/job/exchange/slices.h"
#include "common/require.h"

namespace strata::server {

RingAccumulator::RingAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                                 size_t elements)
    : kernels_(kernels), pool_(pool), elements_(elements), leaves_(leaves) {}

std::vector<size_t> RingAccumulator::Add(size_t leaf, Addend value) {
  STRATA_REQUIRE(leaf < leaves_.size() && leaves_[leaf].empty());
  if (value.unchecked && !kernels_.all_finite(value.bytes.floats(), elements_)) return {leaf};
  leaves_[leaf] = value.Decoded(pool_);
  return {};
}

Bytes RingAccumulator::Finish() {
  if (held() == 0) return Bytes();
  const std::shared_ptr<float> sum = pool_.AllocateFloats(elements_);
  const auto elements = static_cast<uint32_t>(elements_);
  const auto slices = static_cast<uint32_t>(leaves_.size());
  for (uint32_t slice = 0; slice < slices; ++slice) {
    const uint32_t begin = SliceStart(elements, slices, slice);
    const uint32_t end = SliceStart(elements, slices, slice + 1);
    const float* so_far = nullptr;
    for (uint32_t i = 1; i <= slices && begin < end; ++i) {
      const Bytes& leaf = leaves_[(slice + i) % slices];
      if (leaf.empty()) continue;
      const float* const inputs[] = {leaf.floats() + begin, so_far};
      const size_t count = so_far == nullptr ? 1 : 2;
      kernels_.sum(absl::MakeConstSpan(inputs, count), sum.get() + begin, end - begin);
      so_far = sum.get() + begin;
    }
  }
  std::fill(leaves_.begin(), leaves_.end(), Bytes());
  return AsBytes(sum, elements_);
}

std::vector<SumPart> RingAccumulator::Parts() {
  std::vector<SumPart> parts;
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    if (!leaves_[leaf].empty()) parts.push_back({leaf, leaf + 1, leaves_[leaf]});
  }
  return parts;
}

absl::Status RingAccumulator::Restore(std::vector<SumPart> parts) {
  for (SumPart& part : parts) {
    if (part.end != part.begin + 1 || part.begin >= leaves_.size() ||
        !leaves_[part.begin].empty()) {
      return absl::InvalidArgumentError(absl::StrFormat("leaves %d to %d are no leaf of %d",
                                                        part.begin, part.end, leaves_.size()));
    }
    leaves_[part.begin] = part.value.Decoded(pool_);
  }
  return absl::OkStatus();
}

size_t RingAccumulator::held() const {
  return std::count_if(leaves_.begin(), leaves_.end(),
                       [](const Bytes& leaf) { return !leaf.empty(); });
}

}  // namespace strata::server
