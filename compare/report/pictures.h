#ifndef STRATA_COMPARE_REPORT_PICTURES_H_
#define STRATA_COMPARE_REPORT_PICTURES_H_

#include <string>
#include <vector>

#include "compare/report/content.h"

namespace strata::compare {

struct Picture {
  std::string name;  // of the file: "accuracy_by_samples.svg"
  std::string svg;
};

// The page's charts, for where there is no browser: accuracy and loss by samples, seconds and
// updates, time to accuracy, bytes per step, waiting, staleness.
std::vector<Picture> PicturesOf(const Content& content);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PICTURES_H_
