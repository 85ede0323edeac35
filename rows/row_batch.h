#ifndef STRATA_ROWS_ROW_BATCH_H_
#define STRATA_ROWS_ROW_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace strata::rows {

// Writes the distinct ids, ascending, to `unique`, which has room for ids.size() of them, and for
// each id its place among them to `inverse`. Returns how many there are. Memory: 32 bytes an id.
size_t UniqueIds(absl::Span<const uint64_t> ids, uint64_t* unique, int64_t* inverse);

// Adds each bag to the rows that it was the sum of: the gradient of a sum of rows. `bags`:
// ends.size() x columns values. Bag i has the places from ends[i - 1], or 0, up to ends[i].
void SpreadBags(const float* bags, absl::Span<const int64_t> ends, uint32_t columns,
                const int64_t* places, float* rows);

// Returns the index of the first value that is NaN or infinite, or `count`.
size_t FirstNotFinite(const float* values, size_t count);

// The gradients of one table in one step: a sum for each row, added in the order of the calls.
class RowGradients {
 public:
  explicit RowGradients(uint32_t columns) : columns_(columns) {}

  // Adds one gradient for each id. `gradients`: ids.size() x columns values. Errors: a
  // DivergedError naming the id and the column of a value or sum that is not finite; nothing is
  // added. REQUIRES: ids ascend and are distinct.
  absl::Status Add(absl::Span<const uint64_t> ids, const float* gradients);
  void Clear();

  absl::Span<const uint64_t> ids() const { return ids_; }  // ascending
  const float* sums() const { return sums_.data(); }       // ids().size() x columns

 private:
  uint32_t columns_;
  std::vector<uint64_t> ids_, merged_ids_;
  std::vector<float> sums_, merged_sums_;
};

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_BATCH_H_
