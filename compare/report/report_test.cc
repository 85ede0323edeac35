#include "compare/report/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "common/os/atomic_file.h"
#include "compare/report/sample_input.h"
#include "gtest/gtest.h"

namespace strata::compare {
namespace {

using Json = nlohmann::json;

class ReportTest : public testing::Test {
 protected:
  // A directory of the test's own.
  std::string Directory(const std::string& name = "out") {
    const std::string path = testing::TempDir() + "/report_test_" + name;
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    made_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::string& path : made_) std::filesystem::remove_all(path);
  }

  static std::string Read(const std::string& path) { return *ReadFile(path, 64 << 20); }

  Json Written(const ReportInput& input) {
    const std::string directory = Directory();
    const absl::Status status = WriteReport(input, directory);
    EXPECT_TRUE(status.ok()) << status;
    return Json::parse(Read(directory + "/report.json"));
  }

 private:
  std::vector<std::string> made_;
};

// Two modes whose figures can be worked out by hand; accuracy rises evenly.
ReportInput TwoModes() {
  ReportInput input;
  input.title = "job";
  input.modes = {"sync", "async"};
  for (const std::string& mode : input.modes) {
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      proto::RunRecord& run = input.runs.emplace_back();
      const double slow = mode == "sync" ? 2 : 1;
      run.set_mode(mode);
      run.set_seed(seed);
      run.mutable_job()->set_name("a_job");
      run.set_cluster("2 nodes");
      run.set_steps(10);
      run.set_updates(40);
      run.set_trained_s(8 * slow);
      run.set_bytes_pushed(15000);
      run.set_bytes_answered(5000);
      run.set_waiting_share(slow / 10);
      if (mode == "async") run.mutable_staleness()->Add(30);
      if (mode == "async") run.mutable_staleness()->Add(10);
      for (int i = 0; i <= 2; ++i) {
        proto::Measurement* measurement = run.add_measurements();
        measurement->set_samples(500 * i);
        measurement->set_updates(20 * i);
        measurement->set_trained_s(4 * slow * i);
        measurement->set_accuracy(0.4 * i);
        proto::Window* window = run.add_windows();
        window->set_samples(500 * i);
        window->set_trained_s(4 * slow * i);
        window->set_loss(2.0 / (i + seed));
      }
    }
  }
  return input;
}

TEST_F(ReportTest, SummaryHasARowPerModeAndTheVerdict) {
  const absl::StatusOr<Summary> summary = Summarize(TwoModes());
  ASSERT_TRUE(summary.ok()) << summary.status();
  using Row = std::vector<std::string>;
  ASSERT_EQ(summary->rows.size(), 3u);
  EXPECT_EQ(summary->rows[0],
            (Row{"mode", "accuracy", "difference (points)", "at equal updates", "time to 79.0 %",
                 "speed-up", "bytes/step", "waiting", "staleness", "runs"}));
  // 0.79 is reached after 0.79 / 0.80 of the 16 s.
  EXPECT_EQ(summary->rows[1], (Row{"sync", "80.00 % (2 seeds)", "-", "80.00 %", "15.8 s (2 seeds)",
                                   "-", "2.00 kB", "20.0 %", "-", "2"}));
  EXPECT_EQ(summary->rows[2],
            (Row{"async", "80.00 % (2 seeds)", "+0.00 (2 seeds)", "80.00 %", "7.90 s (2 seeds)",
                 "2.00 x (2 seeds)", "2.00 kB", "10.0 %", "0.25", "2"}));
  ASSERT_EQ(summary->verdict.size(), 4u);
  EXPECT_EQ(summary->verdict[0],
            "Use async: it reaches 79.0 % 2.00 x sooner than sync (2 seeds: too few for an "
            "interval), with equal accuracy.");
  EXPECT_EQ(summary->verdict[1], "Sooner to 79.0 % than sync, and as accurate: async 2.00 x.");
  EXPECT_EQ(summary->verdict[2].substr(0, 5), "sync:");
}

TEST_F(ReportTest, ThreeSeedsShowTheirIntervals) {
  ReportInput input = TwoModes();
  for (int i : {0, 2}) {
    input.runs.push_back(input.runs[i]);
    input.runs.back().set_seed(3);
  }
  const absl::StatusOr<Summary> summary = Summarize(input);
  ASSERT_TRUE(summary.ok()) << summary.status();
  using Row = std::vector<std::string>;
  EXPECT_EQ(summary->rows[1], (Row{"sync", "80.00 % (80.00 to 80.00)", "-", "80.00 %",
                                   "15.8 s (15.8 to 15.8)", "-", "2.00 kB", "20.0 %", "-", "3"}));
  EXPECT_EQ(summary->rows[2], (Row{"async", "80.00 % (80.00 to 80.00)", "+0.00 (+0.00 to +0.00)",
                                   "80.00 %", "7.90 s (7.90 to 7.90)", "2.00 x (2.00 to 2.00)",
                                   "2.00 kB", "10.0 %", "0.25", "3"}));
}

TEST_F(ReportTest, SummaryTellsFailuresAndMissedTargets) {
  ReportInput input = TwoModes();
  input.target_accuracy = 0.805;
  input.runs[3].set_failure("rank 1 died");
  const absl::StatusOr<Summary> summary = Summarize(input);
  EXPECT_EQ(summary->rows[1][4], "in 0 of 2 runs");
  EXPECT_EQ(summary->rows[2][1], "80.00 %");
  EXPECT_EQ(summary->rows[2][9], "2, 1 failed");
}

TEST_F(ReportTest, JsonHasFiguresCurvesAndWords) {
  const Json json = Written(TwoModes());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["title"], "job");
  EXPECT_EQ(json["target_accuracy"], 0.79);
  EXPECT_EQ(json["equal_updates"], 40);
  EXPECT_EQ(json["table"].size(), 3u);
  ASSERT_EQ(json["modes"].size(), 2u);
  EXPECT_TRUE(json["modes"][0]["comparison"].is_null());
  const Json& async = json["modes"][1];
  EXPECT_EQ(async["mode"], "async");
  EXPECT_EQ(async["final_accuracy"]["mean"], 0.8);
  EXPECT_EQ(async["final_accuracy"]["count"], 2);
  EXPECT_EQ(async["bytes_per_step"]["mean"], 2000);
  EXPECT_EQ(async["staleness"], (std::vector<int>{60, 20}));
  EXPECT_EQ(async["mean_staleness"], 0.25);
  EXPECT_EQ(async["comparison"]["accuracy_finding"], "equal");
  EXPECT_EQ(async["comparison"]["time_finding"], "sooner");
  EXPECT_NEAR(async["comparison"]["speedup"]["mean"], 2, 1e-12);
  EXPECT_EQ(async["cluster"], "2 nodes");
  const absl::StatusOr<proto::Job> job = ParseJob(async["job"], "report");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "a_job");
  // Windows at 0, 500 and 1000 samples, of seeds 1 and 2: 2 and 1, 1 and 2/3, 2/3 and 1/2.
  EXPECT_EQ(async["loss"]["samples"][0], (std::vector<double>{0, 1.5, 1, 2}));
  EXPECT_EQ(async["accuracy"]["seconds"][2], (std::vector<double>{8, 0.8, 0.8, 0.8}));
  EXPECT_EQ(async["runs"][1]["seed"], 2);
  EXPECT_EQ(async["runs"][1]["loss"]["updates"][1], (std::vector<double>{20, 2.0 / 3}));
  EXPECT_EQ(async["runs"][1]["bytes_pushed"], 15000);
}

TEST_F(ReportTest, TheSameRunsHaveTheSameBytesInWhateverOrder) {
  ReportInput input = SampleInput();
  const std::string first = Directory("first"), second = Directory("second");
  ASSERT_TRUE(WriteReport(input, first).ok());
  std::reverse(input.runs.begin(), input.runs.end());
  ASSERT_TRUE(WriteReport(input, second).ok());
  int files = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(first)) {
    if (file.is_directory()) continue;
    ++files;
    const std::string name = std::filesystem::relative(file.path(), first).string();
    EXPECT_TRUE(Read(file.path()) == Read(second + "/" + name)) << name;
  }
  EXPECT_EQ(files, 12);
}

TEST_F(ReportTest, WhatIsNotFiniteIsNullOrLeftOut) {
  const Json json = Written(SampleInput());  // throws on a bare NaN
  const Json& failed = json["modes"].back()["runs"][0];
  EXPECT_TRUE(failed["waiting_share"].is_null());  // infinite in the record
  EXPECT_TRUE(failed["final_accuracy"].is_null());
  EXPECT_EQ(failed["loss"]["samples"].size(), 3u);  // of four windows one is NaN
  EXPECT_TRUE(json["modes"].back()["final_accuracy"].is_null());
  EXPECT_TRUE(json["modes"].back()["loss"]["samples"].empty());
}

TEST_F(ReportTest, HostileNamesComeBackAsTheyWere) {
  ReportInput input = SampleInput();
  Json json = Written(input);
  EXPECT_EQ(json["title"], kHostileName);
  EXPECT_EQ(json["modes"].back()["mode"], kHostileName);
  EXPECT_EQ(json["modes"].back()["runs"][0]["failure"], kHostileName);
  input.title = "not \xff UTF-8";
  EXPECT_EQ(Written(input)["title"], "not \xef\xbf\xbd UTF-8");
}

TEST_F(ReportTest, ThePageIsOneFileWithTheDocumentInside) {
  const std::string directory = Directory();
  ASSERT_TRUE(WriteReport(SampleInput(), directory).ok());
  const std::string page = Read(directory + "/report/index.html");
  EXPECT_NE(page.find("Chart.js Contributors\n * Released under the MIT License"), page.npos);
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  const std::string inside = page.substr(at, page.find("</script>", at) - at);
  EXPECT_EQ(inside.find_first_of("<>&"), inside.npos);
  EXPECT_EQ(Json::parse(inside), Json::parse(Read(directory + "/report.json")));
  for (const char* outside : {"http-equiv=\"refresh", "<link", " src=", "{{style}}", "{{data}}",
                              "{{palette}}", "{{chart_js}}", "{{page_js}}"}) {
    EXPECT_EQ(page.find(outside), page.npos) << outside;
  }
}

TEST_F(ReportTest, EveryChartIsAPictureOfItsOwn) {
  const std::string directory = Directory();
  ASSERT_TRUE(WriteReport(SampleInput(), directory).ok());
  for (const std::string name :
       {"accuracy_by_samples", "accuracy_by_seconds", "accuracy_by_updates", "loss_by_samples",
        "loss_by_seconds", "loss_by_updates", "time_to_accuracy", "bytes_per_step", "waiting",
        "staleness"}) {
    const std::string svg = Read(directory + "/report/" + name + ".svg");
    EXPECT_NE(svg.find(">lazy:diloco(16)</text>"), svg.npos) << name;
    // The mode's line or bar, besides the legend's where there is one.
    const bool has_legend = svg.find("class=\"bar") == svg.npos || name == "staleness";
    const size_t first = svg.find(" m2\"");
    ASSERT_NE(first, svg.npos) << name;
    EXPECT_TRUE(!has_legend || svg.rfind(" m2\"") != first) << name;
    EXPECT_EQ(svg.find("nan"), svg.npos) << name;
    EXPECT_EQ(svg.find("<b>"), svg.npos) << name;
  }
}

TEST_F(ReportTest, WhatCannotBeComparedIsRefusedAndNothingWritten) {
  ReportInput input = TwoModes();
  input.modes.push_back("ring");
  const std::string directory = Directory();
  const absl::Status status = WriteReport(input, directory);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "mode \"ring\" has no runs");
  EXPECT_EQ(Summarize(input).status(), status);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_F(ReportTest, ADirectoryThatIsNotThereIsNamed) {
  const absl::Status status = WriteReport(TwoModes(), Directory() + "/nowhere");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("nowhere"), std::string::npos) << status;
}

}  // namespace
}  // namespace strata::compare
