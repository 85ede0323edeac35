#ifndef STRATA_COMPARE_REPORT_SVG_SCALE_H_
#define STRATA_COMPARE_REPORT_SVG_SCALE_H_

#include <functional>
#include <string>
#include <vector>

namespace strata::compare {

// Gives the text of a number on an axis: 0.5 is "50 %".
using NumberText = std::function<std::string(double)>;

// An axis: which numbers it shows, and where on a picture.
struct Scale {
  double low = 0;   // the number at `from`
  double high = 1;  // the number at `to`, above `low`
  double from = 0;  // pixels
  double to = 0;
  std::vector<double> ticks;

  double Pixel(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Returns a scale that ends at round numbers around `least` and `greatest`, which are finite; about
// `count` steps of 1, 2 or 5 times a power of ten. Where both are equal, there is room around them.
Scale RoundScale(double least, double greatest, int count, double from, double to);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_SVG_SCALE_H_
