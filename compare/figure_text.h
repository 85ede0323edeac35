#ifndef STRATA_COMPARE_FIGURE_TEXT_H_
#define STRATA_COMPARE_FIGURE_TEXT_H_

#include <string>
#include <vector>

#include "compare/analysis.h"

namespace strata::compare {

// Figures as text, the same in verdicts, tables and charts.

std::string PercentText(double share, int digits);  // "88.13 %"
// "87.90 to 88.36"; a share is clipped to 0 to 100 %, even if Student's interval of two seeds
// exceeds it.
std::string PercentText(const Interval& interval, int digits);
std::string PointsText(double difference);          // of shares: "+0.12"
std::string PointsText(const Interval& interval);   // "-0.31 to +0.07"
std::string RatioText(double ratio);                // "1.82"; from 10 on "12.4"
std::string RatioText(const Interval& interval);    // "1.61 to 2.05"
std::string SecondsText(double seconds);            // "0.0123 s", "12.3 s", "1234 s"
std::string SecondsText(const Interval& interval);  // "11.9 to 12.8"
std::string CountText(double count);                // "940", "61.7 k", "1.23 M"
std::string BytesText(double bytes);                // "940 B", "1.23 MB" (10^6)

// Values of a metric.
std::string ValueText(const Metric& metric, double value, int digits);  // "88.13 %", "12.35"
std::string ValueText(const Metric& metric, const Interval& interval, int digits);
std::string DifferenceText(const Metric& metric, double difference);  // "+0.12", points of a share
std::string DifferenceText(const Metric& metric, const Interval& interval);
// "0.5 points", "0.0617".
std::string MarginText(const Metric& metric, double margin);

// "2 seeds": shown instead of an interval.
std::string SeedsText(int count);

// A mode's name without its own settings, and these settings: "async+schedule.base_lr=0.1" is
// "async" and "schedule.base_lr=0.1".
struct ModeParts {
  std::string name;
  std::vector<std::string> settings;
};
ModeParts PartsOfMode(const std::string& mode);

// "87.1 % (1 point below the lowest mean final accuracy, async's)" or "87.1 % (as given)"; empty
// without a target.
std::string TargetText(const Analysis& analysis);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_FIGURE_TEXT_H_
