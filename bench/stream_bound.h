#ifndef STRATA_BENCH_STREAM_BOUND_H_
#define STRATA_BENCH_STREAM_BOUND_H_

#include <benchmark/benchmark.h>

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

// The vectors that a kernel reads and writes, each once.
struct Traffic {
  size_t n = 0;        // elements of each vector
  size_t reads = 0;    // with writes: 1 to 4, or 8, 12, 16
  size_t updates = 0;  // vectors that are read and written
  size_t writes = 0;
  size_t payload_read = 0;  // bytes
  size_t payload_written = 0;

  // Counts as STREAM does: what is updated counts twice, and what a cache fetches before it is
  // written not at all.
  double Bytes() const;
};

// Times `kernel` and a plain loop over as many vectors, read and written in the same way, turn by
// turn in one run: the manner of STREAM, with plain stores. Of both the compiler sees C++ only for
// the loop. Counters: min_us, median_us, p99_us, bound_us (median), bytes, and `share`, the median
// of loop / kernel, which is what counts on a shared machine.
void AgainstStream(benchmark::State& state, const Traffic& traffic,
                   const std::function<void()>& kernel);

}  // namespace strata::kernels

#endif  // STRATA_BENCH_STREAM_BOUND_H_
