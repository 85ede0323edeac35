#ifndef STRATA_COMMON_TRANSPORT_SIM_RANDOM_H_
#define STRATA_COMMON_TRANSPORT_SIM_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/require.h"

namespace strata::transport {

// A stream of random numbers that is the same on every host for the same seed (SplitMix64, Steele,
// Lea & Flood 2014). Not thread-safe.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Returns a number in [0, count). REQUIRES: count >= 1.
  uint64_t Below(uint64_t count) {
    STRATA_REQUIRE(count >= 1);
    return Next() % count;
  }
  // Returns a number in [low, high].
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const int64_t span_ns = absl::ToInt64Nanoseconds(high - low);
    return low + absl::Nanoseconds(span_ns <= 0 ? 0 : Below(span_ns + 1));
  }
  // Returns a number in [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  // Draws nothing if p is 0, so that a disabled fault does not change other draws.
  bool Chance(double p) { return p > 0 && Fraction() < p; }

 private:
  uint64_t state_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_RANDOM_H_
