#ifndef STRATA_MEASURE_TRAIN_TRAIN_PAGE_H_
#define STRATA_MEASURE_TRAIN_TRAIN_PAGE_H_

#include <string>

#include "absl/status/status.h"
#include "measure/train/train_report.h"

namespace strata::bench {

// SVG files: images per second and efficiency by ranks, a line per mode with the spread of its
// rounds.
std::string RatesPicture(const TrainedModel& model);
std::string EfficiencyPicture(const TrainedModel& model);

// Rules, and of each model its table and pictures: one HTML file that needs nothing else.
std::string RenderPage(const TrainReport& report);

// Writes train.json and index.html into the directory, which is made. Errors: of files and folders
// those of WriteFileAtomically.
absl::Status WriteTrainReport(const TrainReport& report, const std::string& directory);

}  // namespace strata::bench

#endif  // STRATA_MEASURE_TRAIN_TRAIN_PAGE_H_
