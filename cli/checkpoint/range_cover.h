#ifndef STRATA_CLI_CHECKPOINT_RANGE_COVER_H_
#define STRATA_CLI_CHECKPOINT_RANGE_COVER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace strata::cli {

// Whether ranges cover an arena, each element once.
//
// Threads: one.
class RangeCover {
 public:
  explicit RangeCover(uint64_t elements) : elements_(elements) {}

  // Adds the range of `count` elements that begins at `begin`, and comes from `object`. Errors:
  // DataLoss naming the object: no elements, elements beyond the arena, or some that were there.
  absl::Status Add(uint64_t begin, uint64_t count, const std::string& object);
  // Errors: DataLoss naming `what` and the first elements that are in no range.
  absl::Status ExpectAll(const std::string& what) const;

 private:
  struct Range {
    uint64_t end = 0;
    std::string object;
  };

  const uint64_t elements_;
  std::map<uint64_t, Range> ranges_;  // by their first element
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_RANGE_COVER_H_
