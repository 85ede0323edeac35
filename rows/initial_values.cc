#include "rows/initial_values.h"

#include <algorithm>

#include "common/random.h"

namespace strata::rows {
namespace {

// The use of randomness that no other key derived from a table's seed has.
constexpr uint64_t kInitialStream = 0x696e697469616c;  // "initial"

constexpr int kFieldBits = 21;
constexpr uint64_t kFieldMask = (uint64_t{1} << kFieldBits) - 1;
constexpr int kDraws = 4, kFieldsPerDraw = 3;  // 12 uniform values

// A value with mean 0 and variance 1: the sum of 12 uniform ones. All steps are exact.
double Normal(uint64_t key, uint64_t column) {
  int64_t sum = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    uint64_t bits = RandomBits(key, column * kDraws + static_cast<uint64_t>(draw));
    for (int field = 0; field < kFieldsPerDraw; ++field, bits >>= kFieldBits) {
      sum += static_cast<int64_t>(bits & kFieldMask);
    }
  }
  // Each field is the middle of its interval, so that the mean is 0.
  constexpr int kFields = kDraws * kFieldsPerDraw;
  const int64_t doubled = 2 * sum + kFields - kFields * static_cast<int64_t>(kFieldMask + 1);
  return static_cast<double>(doubled) / static_cast<double>(2 * (kFieldMask + 1));
}

}  // namespace

void FillInitial(const InitialValues& how, uint64_t table_seed, uint64_t id,
                 absl::Span<float> row) {
  if (how.kind == InitialValues::Kind::kConstant) {
    std::fill(row.begin(), row.end(), how.scale);
    return;
  }
  const uint64_t key = RandomKey(RandomKey(table_seed, kInitialStream), id);
  for (size_t column = 0; column < row.size(); ++column) {
    if (how.kind == InitialValues::Kind::kUniform) {
      row[column] = (2.0f * RandomUniform(key, column) - 1.0f) * how.scale;
    } else {
      row[column] = static_cast<float>(Normal(key, column) * static_cast<double>(how.scale));
    }
  }
}

}  // namespace strata::rows
