#ifndef STRATA_CLI_WEB_METRIC_TEXT_H_
#define STRATA_CLI_WEB_METRIC_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "cli/web/families.h"

namespace strata::cli::metrics {

// The maximum number of series in a scrape; Prometheus' usual limits would refuse twice as many.
inline constexpr size_t kSeriesMax = 100'000;
inline constexpr size_t kLabelBytesMax = 128;

// NAME="VALUE". Values are truncated to kLabelBytesMax bytes, between characters; invalid UTF-8 and
// control characters become U+FFFD; quotes, backslashes and new lines are escaped.
std::string Label(absl::string_view name, absl::string_view value);

// Collects series and writes them as OpenMetrics 1.0 text. prometheus-cpp 1.0's TextSerializer
// supports only the older format 0.0.4, without units and without an end mark that distinguishes a
// truncated answer from a whole one.
class MetricText {
 public:
  explicit MetricText(size_t series_max = kSeriesMax) : series_max_(series_max) {}

  // `labels` are comma-separated Label()s; may be empty. The first series with given labels counts;
  // duplicates in the family, such as two names that are equal after truncation, are dropped.
  // `family` is one of the constants.
  void Add(const Family& family, absl::string_view labels, double value);
  void Add(const Family& family, absl::string_view labels, uint64_t value);

  // Returns all series, with kLeftOut. A family that does not fit is omitted entirely, as sums over
  // a part of it would mislead; coarser ones are preferred.
  std::string Write() const;

 private:
  struct Slot {
    const Family* family = nullptr;
    std::string text;
    size_t series = 0;
    size_t duplicates = 0;
    absl::flat_hash_set<std::string> labels;
  };
  void AddText(const Family& family, absl::string_view labels, absl::string_view value);

  const size_t series_max_;
  std::unordered_map<const Family*, size_t> places_;
  std::vector<Slot> slots_;
};

}  // namespace strata::cli::metrics

#endif  // STRATA_CLI_WEB_METRIC_TEXT_H_
