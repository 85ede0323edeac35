#ifndef STRATA_COMPARE_STATISTICS_METRIC_H_
#define STRATA_COMPARE_STATISTICS_METRIC_H_

#include <string>

#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"

namespace strata::compare {

// What runs are judged by: the accuracy on the test data, or whatever their program reports. All
// that is said of accuracy in this folder and those above is said of the metric.
struct Metric {
  std::string name = "test_accuracy";  // or "test_loss", or one of the reports' values
  bool less_is_better = false;

  // Whether it is a share from 0 to 1, which is written in percent and whose differences are
  // points; others are plain numbers, of which a margin is a share of the baseline's.
  bool is_accuracy() const { return name == "test_accuracy"; }
  // "accuracy", or its name.
  std::string words() const { return is_accuracy() ? "accuracy" : name; }
};

// `goal` is "min", "max" or empty: "min" of test_loss, else "max". Errors: InvalidArgument: another
// goal, an accuracy that is to be small.
absl::StatusOr<Metric> MakeMetric(const std::string& name, const std::string& goal);

// The run as the metric sees it: the measurements that have it, with its value as their accuracy. A
// run that finished without any has failed for want of it.
proto::RunRecord ByMetric(const Metric& metric, proto::RunRecord run);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_STATISTICS_METRIC_H_
