#ifndef STRATA_ROWS_INITIAL_VALUES_H_
#define STRATA_ROWS_INITIAL_VALUES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace strata::rows {

// The weights of a row that has never been pushed. A pure function of the table's seed, the id and
// the column, with the same bits on every host: rows need not be stored before their first push.
struct InitialValues {
  enum class Kind {
    kConstant,  // all are `scale`
    kUniform,   // in [-scale, scale)
    // Mean 0 and standard deviation `scale`: the sum of 12 uniform values, which needs no function
    // of a math library. No value is beyond 6 standard deviations.
    kNormal,
  };
  Kind kind = Kind::kUniform;
  float scale = 0.01f;  // finite
};

// Writes the row's first weights, one for each of its columns.
void FillInitial(const InitialValues& how, uint64_t table_seed, uint64_t id, absl::Span<float> row);

}  // namespace strata::rows

#endif  // STRATA_ROWS_INITIAL_VALUES_H_
