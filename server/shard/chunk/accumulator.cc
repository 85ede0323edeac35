#include "server/shard/chunk/accumulator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/job/all_reduce.h"
#include "common/require.h"

namespace strata::server {

Bytes Addend::Decoded(BufferPool& pool) const {
  if (!encoded) return bytes;
  const std::shared_ptr<float> floats = pool.AllocateFloats(encoded->elements());
  encoded->WriteTo(floats.get());
  return AsBytes(floats, encoded->elements());
}

std::unique_ptr<Accumulator> CreateAccumulator(proto::Addition::Order order,
                                               const kernels::Kernels& kernels, BufferPool& pool,
                                               size_t leaves, size_t elements) {
  STRATA_REQUIRE(leaves >= 1);
  if (order == proto::Addition::RING) {
    return std::make_unique<RingAccumulator>(kernels, pool, leaves, elements);
  }
  return std::make_unique<TreeAccumulator>(kernels, pool, leaves, elements);
}

size_t HeldMax(proto::Addition::Order order, size_t leaves) {
  return order == proto::Addition::RING ? leaves : (leaves + 1) / 2;
}

namespace {

// A subtree's leaves, [begin, end), and the split between its children.
struct Range {
  size_t begin, end;
  size_t middle() const { return begin + kernels::SumTreeSplit(end - begin); }
};

// Returns the smallest subtree of [0, leaves) that strictly contains [begin, end). REQUIRES: one
// exists.
Range ParentOf(size_t begin, size_t end, size_t leaves) {
  STRATA_REQUIRE(end - begin < leaves);
  Range at = {0, leaves};
  while (true) {
    const size_t middle = at.middle();
    const Range child = begin < middle ? Range{at.begin, middle} : Range{middle, at.end};
    if (child.begin == begin && child.end == end) return at;
    at = child;
  }
}

// Returns whether [begin, end) is a subtree of [0, leaves), possibly a single leaf.
bool IsSubtree(size_t begin, size_t end, size_t leaves) {
  if (begin >= end || end > leaves) return false;
  Range at = {0, leaves};
  while (at.begin != begin || at.end != end) {
    if (at.end - at.begin < 2) return false;
    const size_t middle = at.middle();
    at = begin < middle ? Range{at.begin, middle} : Range{middle, at.end};
  }
  return true;
}

}  // namespace

TreeAccumulator::TreeAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                                 size_t elements)
    : kernels_(kernels), pool_(pool), leaves_(leaves), elements_(elements) {}

std::vector<size_t> TreeAccumulator::Add(size_t leaf, Addend value) {
  STRATA_REQUIRE(leaf < leaves_ && !Has(leaf));
  std::vector<size_t> bad;
  size_t begin = leaf;
  Part part = {.end = leaf + 1, .value = std::move(value), .own = nullptr};
  while (part.end - begin < leaves_) {
    const Range parent = ParentOf(begin, part.end, leaves_);
    const bool is_left = parent.begin == begin;
    auto sibling = parts_.find(is_left ? part.end : parent.begin);
    const size_t sibling_end = is_left ? parent.end : begin;
    if (sibling == parts_.end() || sibling->second.end != sibling_end) break;
    Part& other = sibling->second;
    Part sum;
    // Neither is overwritten, so both are still there if the sum is not finite.
    const bool by_sum = part.value.unchecked && other.value.unchecked;
    if (by_sum) sum = is_left ? Combine(part, other) : Combine(other, part);
    if (!sum.finite) {
      const bool other_is_bad = IsBad(&other), part_is_bad = IsBad(&part);
      if (part_is_bad) bad.push_back(leaf);
      if (other_is_bad) bad.push_back(sibling->first);
      if (other_is_bad) parts_.erase(sibling);
      if (part_is_bad) return bad;
      if (other_is_bad) break;
    }
    // The leaves are finite but their sum overflowed; it stays as it is.
    if (!by_sum) {
      sum = is_left ? Combine(std::move(part), std::move(other))
                    : Combine(std::move(other), std::move(part));
    }
    parts_.erase(sibling);
    part = std::move(sum);
    begin = parent.begin;
  }
  parts_.emplace(begin, std::move(part));
  return bad;
}

bool TreeAccumulator::Has(size_t leaf) const {
  const auto after = parts_.upper_bound(leaf);
  return after != parts_.begin() && std::prev(after)->second.end > leaf;
}

bool TreeAccumulator::IsBad(Part* part) const {
  if (!part->value.unchecked) return false;
  part->value.unchecked = false;
  return !kernels_.all_finite(part->value.bytes.floats(), elements_);
}

std::vector<size_t> TreeAccumulator::Check() {
  std::vector<size_t> bad;
  for (auto& [leaf, part] : parts_) {
    if (IsBad(&part)) bad.push_back(leaf);
  }
  for (const size_t leaf : bad) parts_.erase(leaf);
  return bad;
}

Bytes TreeAccumulator::Finish() {
  for (const auto& [leaf, part] : parts_) STRATA_REQUIRE(!part.value.unchecked);
  const Part sum = Fold(0, leaves_);
  parts_.clear();
  return sum.value.Decoded(pool_);
}

std::vector<SumPart> TreeAccumulator::Parts() {
  std::vector<SumPart> parts;
  for (auto& [begin, part] : parts_) {
    part.own = nullptr;  // others read it from now on
    parts.push_back({begin, part.end, part.value});
  }
  return parts;
}

absl::Status TreeAccumulator::Restore(std::vector<SumPart> parts) {
  size_t free_from = 0;
  for (SumPart& part : parts) {
    if (part.begin < free_from || !IsSubtree(part.begin, part.end, leaves_)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "leaves %d to %d are no part of a sum of %d", part.begin, part.end, leaves_));
    }
    free_from = part.end;
    parts_[part.begin] = {.end = part.end, .value = std::move(part.value), .own = nullptr};
  }
  return absl::OkStatus();
}

size_t TreeAccumulator::held() const {
  size_t held = 0;
  for (const auto& [begin, part] : parts_) held += part.value.empty() ? 0 : 1;
  return held;
}

size_t TreeAccumulator::held_bytes() const {
  size_t bytes = 0;
  for (const auto& [begin, part] : parts_) bytes += part.value.bytes.size();
  return bytes;
}

// The sum of two has the same bits in either order. An encoded one is decoded in the same pass.
bool TreeAccumulator::Sum(const Addend& left, const Addend& right, float* out) const {
  if (!left.encoded && !right.encoded) {
    const float* const inputs[] = {left.bytes.floats(), right.bytes.floats()};
    return kernels_.sum(absl::MakeConstSpan(inputs), out, elements_);
  }
  if (!left.encoded) {
    right.encoded->AddTo(left.bytes.floats(), out);
  } else if (!right.encoded) {
    left.encoded->AddTo(right.bytes.floats(), out);
  } else {
    left.encoded->WriteTo(out);
    right.encoded->AddTo(out, out);
  }
  return true;
}

// Adds adjacent subtrees; an empty one adds nothing.
TreeAccumulator::Part TreeAccumulator::Combine(Part left, Part right) {
  const size_t end = right.end;
  if (left.value.empty()) return right;
  if (right.value.empty()) {
    left.end = end;
    return left;
  }
  std::shared_ptr<float> out = left.own != nullptr ? left.own : right.own;
  if (out == nullptr) out = pool_.AllocateFloats(elements_);
  const bool finite = Sum(left.value, right.value, out.get());
  return {.end = end, .value = AsBytes(out, elements_), .own = out, .finite = finite};
}

TreeAccumulator::Part TreeAccumulator::Fold(size_t begin, size_t end) {
  auto found = parts_.find(begin);
  if (found != parts_.end() && found->second.end == end) return std::move(found->second);
  if (end - begin == 1) return {.end = end, .value = {}, .own = nullptr};
  const size_t middle = Range{begin, end}.middle();
  Part left = Fold(begin, middle);
  return Combine(std::move(left), Fold(middle, end));
}

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
