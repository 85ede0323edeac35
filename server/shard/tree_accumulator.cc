#include "server/shard/tree_accumulator.h"

#include <utility>

#include "absl/types/span.h"

namespace strata::server {
namespace {

// A subtree's leaves, [begin, end), and where they are split.
struct Range {
  size_t begin, end;
  size_t middle() const { return begin + kernels::SumTreeSplit(end - begin); }
};

// The smallest subtree of [0, leaves) that holds [begin, end) and more. REQUIRES: one exists.
Range ParentOf(size_t begin, size_t end, size_t leaves) {
  Range at = {0, leaves};
  while (true) {
    const size_t middle = at.middle();
    const Range child = begin < middle ? Range{at.begin, middle} : Range{middle, at.end};
    if (child.begin == begin && child.end == end) return at;
    at = child;
  }
}

}  // namespace

TreeAccumulator::TreeAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                                 size_t elements)
    : kernels_(kernels), pool_(pool), leaves_(leaves), elements_(elements) {}

void TreeAccumulator::Add(size_t leaf, Addend value) {
  size_t begin = leaf;
  Part part = {.end = leaf + 1, .value = std::move(value), .own = nullptr};
  while (part.end - begin < leaves_) {
    const Range parent = ParentOf(begin, part.end, leaves_);
    const bool is_left = parent.begin == begin;
    auto sibling = parts_.find(is_left ? part.end : parent.begin);
    const size_t sibling_end = is_left ? parent.end : begin;
    if (sibling == parts_.end() || sibling->second.end != sibling_end) break;
    Part other = std::move(sibling->second);
    parts_.erase(sibling);
    part = is_left ? Combine(std::move(part), std::move(other))
                   : Combine(std::move(other), std::move(part));
    begin = parent.begin;
  }
  parts_.emplace(begin, std::move(part));
}

Bytes TreeAccumulator::Finish() {
  const Part sum = Fold(0, leaves_);
  parts_.clear();
  return sum.value.Decoded(pool_);
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

// A sum of two has the same bits either way. An encoded one is decoded in the same pass.
void TreeAccumulator::Sum(const Addend& left, const Addend& right, float* out) const {
  if (!left.encoded && !right.encoded) {
    const float* const inputs[] = {left.bytes.floats(), right.bytes.floats()};
    return kernels_.sum(absl::MakeConstSpan(inputs), out, elements_);
  }
  if (!left.encoded) return right.encoded->AddTo(left.bytes.floats(), out);
  if (!right.encoded) return left.encoded->AddTo(right.bytes.floats(), out);
  left.encoded->WriteTo(out);
  right.encoded->AddTo(out, out);
}

// Adjacent subtrees; an empty one adds nothing.
TreeAccumulator::Part TreeAccumulator::Combine(Part left, Part right) {
  const size_t end = right.end;
  if (left.value.empty()) return right;
  if (right.value.empty()) {
    left.end = end;
    return left;
  }
  std::shared_ptr<float> out = left.own != nullptr ? left.own : right.own;
  if (out == nullptr) out = pool_.AllocateFloats(elements_);
  Sum(left.value, right.value, out.get());
  return {.end = end, .value = AsBytes(out, elements_), .own = out};
}

TreeAccumulator::Part TreeAccumulator::Fold(size_t begin, size_t end) {
  auto found = parts_.find(begin);
  if (found != parts_.end() && found->second.end == end) return std::move(found->second);
  if (end - begin == 1) return {.end = end, .value = {}, .own = nullptr};
  const size_t middle = Range{begin, end}.middle();
  Part left = Fold(begin, middle);
  return Combine(std::move(left), Fold(middle, end));
}

}  // namespace strata::server
