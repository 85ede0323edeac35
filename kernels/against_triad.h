#ifndef STRATA_KERNELS_AGAINST_TRIAD_H_
#define STRATA_KERNELS_AGAINST_TRIAD_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace strata::kernels {

// Aligned like the pool's buffers everywhere else.
class Vector {
 public:
  explicit Vector(size_t n)
      : data_(static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64))),
        n_(n) {}
  float* data() const { return data_.get(); }
  bool SameBits(const Vector& other) const {
    return std::memcmp(data(), other.data(), n_ * sizeof(float)) == 0;
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };

  std::unique_ptr<float, Free> data_;
  size_t n_;
};

// `count` vectors of n numbers from 0 to 1, the same each time.
std::vector<Vector> Vectors(size_t count, size_t n);

// Times `kernel`, which moves `bytes`, and STREAM's triad over as many, turn by turn in one run,
// and reports the medians of both. `share` is what counts: absolute figures differ from machine to
// machine, and from minute to minute on a shared one. Bytes are counted as STREAM counts them, each
// vector that is read or written once; a kernel that writes over what it has read spares the memory
// a transfer and may pass the triad.
void AgainstTriad(benchmark::State& state, double bytes, const std::function<void()>& kernel);

// Odd and tiny (for the test), a chunk of 1 MiB, and 100 MiB, which no cache of one core holds.
inline constexpr int64_t kTiny = 1003, kChunk = 262144, kLarge = 26214400;

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_AGAINST_TRIAD_H_
