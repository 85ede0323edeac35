#ifndef STRATA_COMMON_RANDOM_H_
#define STRATA_COMMON_RANDOM_H_

#include <cstdint>
#include <random>

#include "common/require.h"

namespace strata {

// Random numbers as a pure function of a key and a counter: no state, so any rank can compute any
// of them, in any order, with the same bits on every host (no libm is involved).

// The finalizer of SplitMix64 (Steele, Lea & Flood 2014): a bijection that mixes all bits.
constexpr uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns a key for one use of randomness, `stream`, derived from a key or seed.
constexpr uint64_t RandomKey(uint64_t key, uint64_t stream) {
  return MixBits(MixBits(key) ^ stream);
}

// 64 random bits, number `counter` of the stream `key`.
constexpr uint64_t RandomBits(uint64_t key, uint64_t counter) {
  return MixBits(key + counter * 0xd1342543de82ef95u);
}

// Returns a multiple of 2^-24 in [0, 1).
constexpr float RandomUniform(uint64_t key, uint64_t counter) {
  return static_cast<float>(RandomBits(key, counter) >> 40) * 0x1p-24f;
}

// Returns an integer in [0, bound), with a bias below bound / 2^32. REQUIRES: 1 <= bound < 2^32.
constexpr uint64_t RandomBelow(uint64_t key, uint64_t counter, uint64_t bound) {
  STRATA_REQUIRE(bound >= 1 && bound >> 32 == 0);
  return ((RandomBits(key, counter) >> 32) * bound) >> 32;
}

// Returns a random number from the system, unique among processes, to be used as a name; never 0.
inline uint64_t RandomId() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

}  // namespace strata

#endif  // STRATA_COMMON_RANDOM_H_
