#include "compare/report/pictures.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compare/report/svg/charts.h"
#include "compare/statistics/figure_text.h"

namespace strata::compare {
namespace {

// "50 k", not "50.0 k": ticks are round.
std::string RoundText(const std::string& text) {
  return absl::StrReplaceAll(text, {{".00 ", " "}, {".0 ", " "}});
}

std::string RoundCount(double count) { return RoundText(CountText(count)); }
std::string RoundBytes(double bytes) { return RoundText(BytesText(bytes)); }

struct AxisWords {
  const char* file;
  const char* name;
  NumberText text;
};

AxisWords WordsOf(Axis axis) {
  if (axis == Axis::kSamples) return {"samples", "samples of all ranks", RoundCount};
  if (axis == Axis::kUpdates) return {"updates", "updates of the weights", RoundCount};
  return {"seconds", "seconds of training",
          [](double seconds) { return absl::StrFormat("%g", seconds); }};
}

std::string WholePercent(double share) { return absl::StrFormat("%g %%", share * 100); }

std::vector<LineSeries> SeriesOf(const Content& content, std::array<CurveSet, 3> ModeCurves::*kind,
                                 size_t axis) {
  std::vector<LineSeries> modes;
  for (size_t i = 0; i < content.curves.size(); ++i) {
    const CurveSet& curves = (content.curves[i].*kind)[axis];
    modes.push_back({content.analysis.modes[i].mode, curves.mean, curves.failed});
  }
  return modes;
}

template <typename Text>
BarRow RowOf(const ModeFigures& mode, const std::optional<Estimate>& estimate,
             const std::string& absent, Text text) {
  if (!estimate) return {mode.mode, std::nullopt, std::nullopt, absent};
  return {mode.mode, estimate->mean, estimate->interval, text(estimate->mean)};
}

Picture TimePicture(const Analysis& analysis) {
  BarChart chart;
  chart.title = analysis.target_accuracy
                    ? absl::StrCat("Time to ", PercentText(*analysis.target_accuracy, 1))
                    : "Time to accuracy: no run finished";
  chart.x_name = WordsOf(Axis::kSeconds).name;
  chart.x_text = WordsOf(Axis::kSeconds).text;
  for (const ModeFigures& mode : analysis.modes) {
    const std::string absent =
        absl::StrCat("reached in ", mode.reached, " of ", mode.runs.size(), " runs");
    chart.modes.push_back(RowOf(mode, mode.seconds_to_target,
                                mode.final_accuracy ? absent : "failed",
                                [](double seconds) { return SecondsText(seconds); }));
  }
  return {"time_to_accuracy.svg", Svg(chart)};
}

Picture BytesPicture(const Analysis& analysis) {
  BarChart chart{"Bytes per step, all nodes, both ways", "bytes", RoundBytes, {}};
  for (const ModeFigures& mode : analysis.modes) {
    chart.modes.push_back(RowOf(mode, mode.bytes_per_step, "failed", BytesText));
  }
  return {"bytes_per_step.svg", Svg(chart)};
}

Picture WaitingPicture(const Analysis& analysis) {
  BarChart chart{"Share of time in which ranks waited", "share of ranks' time", WholePercent, {}};
  for (const ModeFigures& mode : analysis.modes) {
    chart.modes.push_back(RowOf(mode, mode.waiting_share, "failed",
                                [](double share) { return PercentText(share, 1); }));
  }
  return {"waiting.svg", Svg(chart)};
}

Picture StalenessPicture(const Analysis& analysis) {
  HistogramChart chart{
      "Staleness of pushes", "staleness, in clocks or updates", "share of the mode's pushes", {}};
  for (const ModeFigures& mode : analysis.modes) chart.modes.push_back({mode.mode, mode.staleness});
  return {"staleness.svg", Svg(chart)};
}

}  // namespace

std::vector<Picture> PicturesOf(const Content& content) {
  std::vector<Picture> pictures;
  for (size_t axis = 0; axis < kAxes.size(); ++axis) {
    const AxisWords words = WordsOf(kAxes[axis]);
    pictures.push_back(
        {absl::StrCat("accuracy_by_", words.file, ".svg"),
         Svg(LineChart{"Accuracy on the test data", words.name, words.text, "accuracy",
                       WholePercent, SeriesOf(content, &ModeCurves::accuracy, axis)})});
    pictures.push_back({absl::StrCat("loss_by_", words.file, ".svg"),
                        Svg(LineChart{"Training loss", words.name, words.text, "loss",
                                      [](double loss) { return absl::StrFormat("%g", loss); },
                                      SeriesOf(content, &ModeCurves::loss, axis)})});
  }
  const Analysis& analysis = content.analysis;
  pictures.push_back(TimePicture(analysis));
  pictures.push_back(BytesPicture(analysis));
  pictures.push_back(WaitingPicture(analysis));
  pictures.push_back(StalenessPicture(analysis));
  return pictures;
}

}  // namespace strata::compare
