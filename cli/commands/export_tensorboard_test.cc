#include "cli/commands/export_tensorboard.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/commands/metrics_lines.h"
#include "common/tensorboard/event.pb.h"
#include "common/tensorboard/events.h"
#include "common/tensorboard/run_events.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/metrics_log.h"

namespace strata::cli {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kName[] = "/events.out.tfevents.0000000000.strata-export";

proto::MetricsRecord Record(uint64_t step) {
  proto::MetricsRecord record;
  record.set_step(step);
  record.set_samples(8 * step);
  record.set_samples_per_s(10);
  record.set_loss(1.0 / static_cast<double>(step));
  record.set_elapsed_s(0.5 * static_cast<double>(step));
  return record;
}

std::string Lines(std::initializer_list<uint64_t> steps) {
  std::string text;
  for (const uint64_t step : steps) absl::StrAppend(&text, worker::MetricsLine(Record(step)), "\n");
  return text;
}

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::trunc) << text;
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<tensorboard::proto::Event> Events(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  tensorboard::RecordReader reader(&in);
  std::vector<tensorboard::proto::Event> events;
  for (std::string payload; reader.Next(&payload);) {
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromString(payload));
  }
  return events;
}

class ExportTensorBoardTest : public testing::Test {
 protected:
  ExportTensorBoardTest()
      : dir_(testing::TempDir() + "/export_" +
             testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }

  const std::string dir_;
};

TEST_F(ExportTensorBoardTest, WritesTheJobAndEachRecordAtItsTime) {
  Write(dir_ + "/metrics.jsonl", Lines({10, 20}));
  Write(dir_ + "/job.textproto", "name: \"a\"\n");
  const auto runs = ExportTensorBoard(dir_, "");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ((*runs)[0].file, dir_ + kName);
  EXPECT_EQ((*runs)[0].records, 2u);
  EXPECT_EQ((*runs)[0].warning, "");
  const auto events = Events(dir_ + kName);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_THAT(events[1].summary().value(0).tensor().string_val(0), HasSubstr("name: \"a\""));
  EXPECT_EQ(events[2].step(), 10);
  EXPECT_EQ(events[3].step(), 20);
  EXPECT_EQ(events[3].wall_time(), 10.0);
  EXPECT_EQ(events[3].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(events[3].summary().value(0).simple_value(), static_cast<float>(1.0 / 20));
}

TEST_F(ExportTensorBoardTest, GivesTheSameBytesAgainAndReplacesAnEarlierExport) {
  Write(dir_ + "/metrics.jsonl", Lines({10, 20}));
  ASSERT_TRUE(ExportTensorBoard(dir_, "").ok());
  const std::string first = Read(dir_ + kName);
  ASSERT_TRUE(ExportTensorBoard(dir_, dir_ + "/else/where").ok());
  EXPECT_EQ(Read(dir_ + "/else/where" + kName), first);
  Write(dir_ + "/metrics.jsonl", Lines({10, 20, 30}));
  ASSERT_TRUE(ExportTensorBoard(dir_, "").ok());
  EXPECT_THAT(Read(dir_ + kName), testing::StartsWith(first));
  EXPECT_EQ(Events(dir_ + kName).size(), 4u);
}

TEST_F(ExportTensorBoardTest, OfAComparisonWritesAFolderForEachRun) {
  for (const char* run : {"sync-seed1", "async-seed1"}) {
    Write(absl::StrCat(dir_, "/jobs/", run, "/metrics.jsonl"), Lines({10}));
  }
  Write(dir_ + "/jobs/daemon.log", "");
  const auto runs = ExportTensorBoard(dir_, "");
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> files;
  for (const ExportedRun& run : *runs) files.push_back(run.file);
  EXPECT_THAT(files, ElementsAre(dir_ + "/tensorboard/async-seed1" + kName,
                                 dir_ + "/tensorboard/sync-seed1" + kName));
  ASSERT_TRUE(ExportTensorBoard(dir_, dir_ + "/out").ok());
  EXPECT_EQ(Read(dir_ + "/out/sync-seed1" + kName), Read(files[1]));
}

TEST_F(ExportTensorBoardTest, SaysThatALastLineIsCutShort) {
  Write(dir_ + "/metrics.jsonl", Lines({10}) + "{\"step\":20,\"sam");
  const auto runs = ExportTensorBoard(dir_, "");
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ((*runs)[0].records, 1u);
  EXPECT_EQ((*runs)[0].warning, dir_ + "/metrics.jsonl: the last line is cut short, and left out");
}

TEST_F(ExportTensorBoardTest, RefusesWhatItCannotReadByItsNameAndWritesNothing) {
  EXPECT_EQ(ExportTensorBoard(dir_ + "/none", "").status(),
            absl::NotFoundError(dir_ + "/none: no such folder"));
  EXPECT_EQ(ExportTensorBoard(dir_, "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ExportTensorBoard(dir_, "").status().message()),
              testing::StartsWith(dir_ + ": neither metrics.jsonl"));
  Write(dir_ + "/metrics.jsonl", Lines({10}) + "nonsense\n" + Lines({20}));
  EXPECT_EQ(ExportTensorBoard(dir_, dir_ + "/out").status(),
            absl::InvalidArgumentError(dir_ + "/metrics.jsonl:2: is no JSON object"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out"));
}

TEST_F(ExportTensorBoardTest, NamesTheRunsOfAFolderThatHasSeveral) {
  for (const char* run : {"/b/lenet-2", "/a/lenet-1"}) {
    Write(dir_ + run + "/metrics.jsonl", Lines({10}));
  }
  EXPECT_EQ(ExportTensorBoard(dir_, "").status(),
            absl::InvalidArgumentError(
                absl::StrCat(dir_, ": is no run directory, but has those of 2 runs: name one of ",
                             dir_, "/a/lenet-1, ", dir_, "/b/lenet-2")));
  EXPECT_EQ(ExportTensorBoard(dir_ + "/a", "").status(),
            absl::InvalidArgumentError(
                absl::StrCat(dir_, "/a: is no run directory, but has those of 1 run: name one of ",
                             dir_, "/a/lenet-1")));
  for (int i = 0; i < 8; ++i) Write(absl::StrCat(dir_, "/c", i, "/metrics.jsonl"), Lines({10}));
  EXPECT_THAT(std::string(ExportTensorBoard(dir_, "").status().message()),
              testing::EndsWith(" and 5 more"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/tensorboard"));
}

TEST_F(ExportTensorBoardTest, RefusesAFileOfWhichNoLineIsWhole) {
  const std::string path = dir_ + "/metrics.jsonl";
  for (const std::string text : {"\x93\xff{\"step\"\x01 noise", "{\"step\":20,\"sam"}) {
    Write(path, text);
    EXPECT_EQ(ExportTensorBoard(dir_, dir_ + "/out").status(),
              absl::InvalidArgumentError(path + ": has no whole line; its first one is no JSON "
                                                "object"));
  }
  Write(path, "");
  EXPECT_EQ(ExportTensorBoard(dir_, dir_ + "/out").status(),
            absl::InvalidArgumentError(path + ": is empty, so there is nothing to export"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out"));
}

TEST_F(ExportTensorBoardTest, OfAComparisonLeavesOutEmptyRunsUnlessAllAre) {
  Write(dir_ + "/jobs/async-seed1/metrics.jsonl", "");
  Write(dir_ + "/jobs/sync-seed1/metrics.jsonl", "");
  const std::string empty = ": is empty, so there is nothing to export";
  EXPECT_EQ(ExportTensorBoard(dir_, "").status(),
            absl::InvalidArgumentError(dir_ + "/jobs/async-seed1/metrics.jsonl" + empty));
  Write(dir_ + "/jobs/sync-seed1/metrics.jsonl", Lines({10}));
  const auto runs = ExportTensorBoard(dir_, "");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].file, "");
  EXPECT_EQ((*runs)[0].warning, dir_ + "/jobs/async-seed1/metrics.jsonl" + empty);
  EXPECT_EQ((*runs)[1].file, dir_ + "/tensorboard/sync-seed1" + kName);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/tensorboard/async-seed1"));
}

TEST_F(ExportTensorBoardTest, RefusesAFolderThatHasEventsOfAJobAlready) {
  Write(dir_ + "/metrics.jsonl", Lines({10}));
  Write(dir_ + "/events.out.tfevents.1700000000.host.strata", "x");
  const auto runs = ExportTensorBoard(dir_, "");
  EXPECT_EQ(runs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(runs.status().message()),
      testing::AllOf(HasSubstr("events.out.tfevents.1700000000.host.strata"), HasSubstr("--out")));
  EXPECT_TRUE(ExportTensorBoard(dir_, dir_ + "/out").ok());
}

using testing::SizeIs;

proto::MetricsRecord Full() {
  proto::MetricsRecord record;
  record.set_step(50);
  record.set_samples(3200);
  record.set_epoch(0.1);
  record.set_loss(1.0 / 3);
  record.set_samples_per_s(1234.5678901234);
  record.set_bytes_pushed(uint64_t{1} << 60);
  record.set_bytes_answered(2);
  for (const uint64_t pushes : {6, 3, 1}) record.add_staleness(pushes);
  record.set_waiting_share(0.25);
  record.set_hidden_share(0.75);
  record.set_test_accuracy(0.9);
  record.set_test_loss(0.1);
  (*record.mutable_values())["a \"name\"\n"] = -1e-300;
  (*record.mutable_values())["b"] = 2;
  record.set_elapsed_s(9.5);
  record.set_pushes(10);
  record.set_pushes_during_backward(4);
  record.set_lr(0.05);
  record.set_final(true);
  return record;
}

// Written the same way again, so no field is lost or rounded.
void ExpectReadBack(const proto::MetricsRecord& record) {
  const std::string line = worker::MetricsLine(record);
  const auto read = ParseMetricsLine(line);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(worker::MetricsLine(*read), line);
}

TEST(ParseMetricsLine, GivesTheRecordThatTheLineWasMadeOf) {
  ExpectReadBack(Full());
  proto::MetricsRecord plain;
  plain.set_step(1);
  plain.set_samples(1);
  ExpectReadBack(plain);
  proto::MetricsRecord late;
  late.set_step(7);
  late.set_test_accuracy(0.5);
  late.set_elapsed_s(3);
  ExpectReadBack(late);
  EXPECT_FALSE(ParseMetricsLine(worker::MetricsLine(plain))->has_hidden_share());
}

TEST(ParseMetricsLine, TakesNullForNoNumberAndLeavesOutFieldsThatItDoesNotKnow) {
  proto::MetricsRecord record = Full();
  record.set_loss(std::nan(""));
  const auto read = ParseMetricsLine(worker::MetricsLine(record));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::isnan(read->loss()));
  EXPECT_EQ(ParseMetricsLine(R"({"step":3,"samples":1,"later":{"x":[1]}})")->step(), 3u);
}

TEST(ParseMetricsLine, SaysWhatIsWrong) {
  const auto why = [](const std::string& line) {
    return std::string(ParseMetricsLine(line).status().message());
  };
  EXPECT_EQ(why("[1]"), "is no JSON object");
  EXPECT_EQ(why("{\"step\":1"), "is no JSON object");
  EXPECT_EQ(why(""), "is no JSON object");
  EXPECT_EQ(why("{}"), "has no step");
  EXPECT_EQ(why(R"({"step":-1})"), "step is no count");
  EXPECT_EQ(why(R"({"step":1.5})"), "step is no count");
  EXPECT_EQ(why(R"({"step":18446744073709551615})"), "step is too large");
  EXPECT_EQ(why(R"({"step":1,"loss":"x"})"), "loss is no number");
  EXPECT_EQ(why(R"({"step":1,"staleness":3})"), "staleness is no list of counts");
  EXPECT_EQ(why(R"({"step":1,"staleness":[1,"x"]})"), "staleness is no count");
  EXPECT_EQ(why(R"({"step":1,"values":[1]})"), "values is no object of numbers");
  EXPECT_EQ(why(R"({"step":1,"values":{"a":true}})"), "values.a is no number");
  EXPECT_EQ(why(R"({"step":1,"final":1})"), "final is neither true nor false");
}

TEST(ParseMetrics, NamesTheFileAndTheLineThatIsBroken) {
  const std::string good = worker::MetricsLine(Full()) + "\n";
  EXPECT_EQ(ParseMetrics(good + good + "nonsense\n" + good, "/runs/a/metrics.jsonl").status(),
            absl::InvalidArgumentError("/runs/a/metrics.jsonl:3: is no JSON object"));
  EXPECT_EQ(ParseMetrics(good + "\n", "m").status(),
            absl::InvalidArgumentError("m:2: is no JSON object"));
}

TEST(ParseMetrics, LeavesOutALastLineThatIsCutShortAndSaysSo) {
  const std::string good = worker::MetricsLine(Full()) + "\n";
  const auto cut = ParseMetrics(good + good.substr(0, 30), "m");
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_TRUE(cut->is_cut);
  EXPECT_THAT(cut->records, SizeIs(1));
  const auto whole = ParseMetrics(good + good.substr(0, good.size() - 1), "m");
  EXPECT_FALSE(whole->is_cut) << "only the line break is missing";
  EXPECT_THAT(whole->records, SizeIs(2));
  EXPECT_THAT(ParseMetrics("", "m")->records, SizeIs(0));
}

}  // namespace

}  // namespace strata::cli
