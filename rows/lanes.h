#ifndef STRATA_ROWS_LANES_H_
#define STRATA_ROWS_LANES_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace strata::rows {

// Four columns of a row, which every processor computes at once. Rows are short: a call of a
// library's function for one costs more than the work.
inline constexpr uint32_t kLanes = 4;
typedef float Four __attribute__((vector_size(kLanes * sizeof(float))));

template <typename Lanes>
inline Lanes Load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <typename Lanes>
inline void Save(const Lanes& lanes, float* to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

inline float Root(float value) { return std::sqrt(value); }
inline Four Root(Four value) {
  return Four{std::sqrt(value[0]), std::sqrt(value[1]), std::sqrt(value[2]), std::sqrt(value[3])};
}

// Calls `each` for every column, with a value of the type to use: for four at a time, then for one.
template <typename Each>
inline void ForColumns(uint32_t columns, const Each& each) {
  uint32_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) each(Four(), column);
  for (; column < columns; ++column) each(0.0f, column);
}

inline void CopyRow(const float* from, uint32_t columns, float* to) {
  ForColumns(columns,
             [=](auto lanes, uint32_t i) { Save(Load<decltype(lanes)>(from + i), to + i); });
}

inline void AddRow(const float* from, uint32_t columns, float* to) {
  ForColumns(columns, [=](auto lanes, uint32_t i) {
    using Lanes = decltype(lanes);
    Save(Load<Lanes>(to + i) + Load<Lanes>(from + i), to + i);
  });
}

}  // namespace strata::rows

#endif  // STRATA_ROWS_LANES_H_
