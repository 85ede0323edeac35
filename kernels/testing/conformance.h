#ifndef STRATA_KERNELS_TESTING_CONFORMANCE_H_
#define STRATA_KERNELS_TESTING_CONFORMANCE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// What every device's kernels must do: the reference's bits at any size and alignment, and nothing
// written outside the buffers. A device's test instantiates it:
//   INSTANTIATE_TEST_SUITE_P(Cpu, KernelsConformance, testing::Values(&Cpu));
class KernelsConformance : public testing::TestWithParam<std::function<const Kernels&()>> {
 protected:
  const Kernels& kernels() const { return GetParam()(); }
};

// For tests: n elements that start `shift` elements after a 64-byte boundary, between sentinels.
template <typename T>
class GuardedOf {
 public:
  GuardedOf(size_t n, size_t shift) : memory_(n + shift + 2 * kMargin, Sentinel()), n_(n) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data() + kMargin);
    start_ = kMargin - address % 64 / sizeof(T) + shift;
  }
  T* data() { return memory_.data() + start_; }
  size_t size() const { return n_; }

  void Fill(std::mt19937* random, T low = -2, T high = 2) {
    std::uniform_real_distribution<T> values(low, high);
    for (size_t i = 0; i < n_; ++i) data()[i] = values(*random);
  }
  void CopyFrom(GuardedOf& other) {
    if (n_ > 0) std::memcpy(data(), other.data(), n_ * sizeof(T));
  }

  bool SentinelsStand() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < start_ || i >= start_ + n_) && memory_[i] != Sentinel()) return false;
    }
    return true;
  }
  bool SameBits(GuardedOf& other) {
    return n_ == other.n_ && (n_ == 0 || std::memcmp(data(), other.data(), n_ * sizeof(T)) == 0);
  }

 private:
  static constexpr size_t kMargin = 24 + 64 / sizeof(T);
  static T Sentinel() {
    if constexpr (sizeof(T) == 1) {
      return T{0xa5};
    } else {
      return static_cast<T>(-12345.678);
    }
  }

  std::vector<T> memory_;
  size_t n_;
  size_t start_;
};
using Guarded = GuardedOf<float>;
using GuardedBytes = GuardedOf<std::byte>;

// All sizes around the vectors' widths, and some long ones.
inline std::vector<size_t> Sizes() {
  std::vector<size_t> sizes;
  for (size_t n = 0; n <= 70; ++n) sizes.push_back(n);
  for (size_t n : {511, 512, 513, 1000, 4096, 4099, 70001}) sizes.push_back(n);
  return sizes;
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_TESTING_CONFORMANCE_H_
