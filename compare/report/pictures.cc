#include "compare/report/pictures.h"

#include "absl/strings/str_cat.h"
#include "compare/report/svg/charts.h"

namespace strata::compare {

std::vector<Picture> DrawPictures(const ReportCharts& charts) {
  std::vector<Picture> pictures;
  for (size_t axis = 0; axis < charts.accuracy.size(); ++axis) {
    for (const auto& [kind, lines] :
         {std::pair("accuracy", &charts.accuracy[axis]), std::pair("loss", &charts.loss[axis])}) {
      pictures.push_back({absl::StrCat(kind, "_by_", lines->axis, ".svg"), Svg(lines->chart)});
    }
  }
  pictures.push_back({"time_to_accuracy.svg", Svg(charts.time.chart)});
  pictures.push_back({"bytes_per_step.svg", Svg(charts.bytes.chart)});
  pictures.push_back({"waiting.svg", Svg(charts.waiting.chart)});
  pictures.push_back({"staleness.svg", Svg(charts.staleness)});
  return pictures;
}

}  // namespace strata::compare
