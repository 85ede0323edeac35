#include "worker/client/connect/tensor_set.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/require.h"

namespace strata::client {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 40;

absl::Status Bad(const Tensor& tensor, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\": ", what));
}

bool IsMultiplier(float x) { return std::isfinite(x) && x >= 0; }

}  // namespace

absl::StatusOr<int> TensorSet::Add(Tensor tensor) {
  if (tensor.name.empty()) return Bad(tensor, "a name is required");
  uint64_t count = 1;
  for (uint64_t extent : tensor.shape) {
    if (extent == 0) return Bad(tensor, "has no elements");
    if (extent > kElementsMax / count) return Bad(tensor, "has too many elements");
    count *= extent;
  }
  if (!IsMultiplier(tensor.lr_multiplier)) return Bad(tensor, "lr_multiplier is not >= 0");
  if (!IsMultiplier(tensor.decay_multiplier)) return Bad(tensor, "decay_multiplier is not >= 0");
  if ((tensor.weights == nullptr) != (tensor.gradients == nullptr)) {
    return Bad(tensor, "give weights and gradients, or neither");
  }
  entries_.push_back({std::move(tensor), elements_, count});
  elements_ += count;
  return size() - 1;
}

proto::Layout TensorSet::Layout() const {
  proto::Layout layout;
  layout.set_elements(elements_);
  for (const Entry& entry : entries_) {
    proto::Segment* segment = layout.add_segments();
    segment->set_name(entry.tensor.name);
    for (uint64_t extent : entry.tensor.shape) segment->add_shape(extent);
    segment->set_offset(entry.offset);
    segment->set_lr_multiplier(entry.tensor.lr_multiplier);
    segment->set_decay_multiplier(entry.tensor.decay_multiplier);
    segment->set_averaged(entry.tensor.averaged);
  }
  return layout;
}

StepBook::StepBook(const TensorSet& tensors, const ChunkMap& map)
    : tensors_(map.chunks(), 0), published_(tensors.size(), false) {
  for (int i = 0; i < tensors.size(); ++i) {
    const TensorSet::Entry& entry = tensors[i];
    Reach reach{map.ChunkAt(entry.offset), map.ChunkAt(entry.offset + entry.count - 1)};
    for (uint32_t c = reach.first.value(); c <= reach.last.value(); ++c) ++tensors_[c];
    reach_.push_back(reach);
  }
  missing_ = tensors_;
}

void StepBook::Begin() {
  missing_ = tensors_;
  published_.assign(published_.size(), false);
}

void StepBook::Publish(int tensor, std::vector<ChunkId>* complete) {
  STRATA_REQUIRE(!published_[tensor]);
  published_[tensor] = true;
  for (uint32_t c = reach_[tensor].first.value(); c <= reach_[tensor].last.value(); ++c) {
    if (--missing_[c] == 0) complete->push_back(ChunkId(c));
  }
}

}  // namespace strata::client
