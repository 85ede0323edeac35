#include "cli/checkpoint/range_cover.h"

#include <iterator>

#include "absl/strings/str_format.h"

namespace strata::cli {

absl::Status RangeCover::Add(uint64_t begin, uint64_t count, const std::string& object) {
  if (count == 0 || begin >= elements_ || count > elements_ - begin) {
    return absl::DataLossError(absl::StrFormat(
        "%s: %d elements from element %d on, but the job has %d", object, count, begin, elements_));
  }
  const auto after = ranges_.lower_bound(begin);
  const auto clash = [&](uint64_t element, const Range& other) {
    return absl::DataLossError(
        absl::StrFormat("%s: has element %d, which %s has, too", object, element, other.object));
  };
  if (after != ranges_.end() && after->first < begin + count) {
    return clash(after->first, after->second);
  }
  if (after != ranges_.begin() && std::prev(after)->second.end > begin) {
    return clash(begin, std::prev(after)->second);
  }
  ranges_[begin] = {begin + count, object};
  return absl::OkStatus();
}

absl::Status RangeCover::ExpectAll(const std::string& what) const {
  uint64_t end = 0;
  const auto gap = [&](uint64_t until) {
    return absl::DataLossError(
        absl::StrFormat("%s: elements %d to %d are in no object", what, end, until - 1));
  };
  for (const auto& [begin, range] : ranges_) {
    if (begin != end) return gap(begin);
    end = range.end;
  }
  return end == elements_ ? absl::OkStatus() : gap(elements_);
}

}  // namespace strata::cli
