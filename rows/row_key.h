#ifndef STRATA_ROWS_ROW_KEY_H_
#define STRATA_ROWS_ROW_KEY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/random.h"

namespace strata::rows {

// A row's place follows from its hash alone, so that every process finds it without asking. The
// highest bits of the hash name the job's bucket; more of them name the range of the table's rows.

// Ids are below 2^63.
inline constexpr uint64_t kIdMax = (uint64_t{1} << 63) - 1;

// A bijection of ids for each seed: two rows of a table never share a hash.
constexpr uint64_t HashOf(uint64_t table_seed, uint64_t id) {
  return MixBits(id ^ MixBits(table_seed));
}

// Returns the highest bits of a hash: one of 2^bits buckets, or ranges. REQUIRES: bits <= 48.
constexpr uint64_t HighBits(uint64_t hash, uint32_t bits) {
  return bits == 0 ? 0 : hash >> (64 - bits);
}

// Returns the bucket of a row among 2^bits.
constexpr uint32_t BucketOf(uint64_t table_seed, uint64_t id, uint32_t bits) {
  return static_cast<uint32_t>(HighBits(HashOf(table_seed, id), bits));
}

// Errors: InvalidArgument naming an id that does not follow the one before.
template <typename Id>
absl::Status CheckAscending(absl::Span<const Id> ids) {
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] > ids[i - 1]) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("id %d comes after %d: ids ascend, each once", ids[i], ids[i - 1]));
  }
  return absl::OkStatus();
}

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_KEY_H_
