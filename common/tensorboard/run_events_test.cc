#include "common/tensorboard/run_events.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/tensorboard/events.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::tensorboard {
namespace {

using testing::ElementsAre;

std::vector<proto::Event> ReadEvents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  RecordReader reader(&in);
  std::vector<proto::Event> events;
  for (std::string payload; reader.Next(&payload);) {
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromString(payload));
  }
  EXPECT_EQ(reader.whole_bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
  return events;
}

strata::proto::MetricsRecord RunEventsRecord(uint64_t step) {
  strata::proto::MetricsRecord record;
  record.set_step(step);
  record.set_samples(8 * step);
  record.set_samples_per_s(10);
  record.set_loss(1.0 / static_cast<double>(step));
  return record;
}

class RunEventsTest : public testing::Test {
 protected:
  RunEventsTest()
      : dir_(testing::TempDir() + "/run_events_" +
             testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }

  RunEvents Make(int64_t now_s = 1'700'000'000) {
    return RunEvents({.dir = dir_, .job_text = "name: \"a\"\n", .now = [=] {
                        return absl::FromUnixSeconds(now_s);
                      }});
  }
  std::string File() {
    const std::vector<std::string> names = EventFilesIn(dir_);
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : absl::StrCat(dir_, "/", names[0]);
  }
  // Returns the steps of the loss that TensorBoard shows for a file, without void ones.
  std::vector<int64_t> Steps() {
    std::map<int64_t, int> steps;
    for (const proto::Event& event : ReadEvents(File())) {
      if (event.has_session_log()) steps.erase(steps.lower_bound(event.step()), steps.end());
      if (event.has_summary() && event.step() > 0) ++steps[event.step()];
    }
    std::vector<int64_t> shown;
    for (const auto& [step, times] : steps) shown.insert(shown.end(), times, step);
    return shown;
  }

  const std::string dir_;
};

TEST_F(RunEventsTest, AFileHasItsVersionTheJobOnceAndARecordEach) {
  RunEvents run = Make();
  ASSERT_EQ(run.Append(RunEventsRecord(10), 0), absl::OkStatus());
  EXPECT_THAT(std::filesystem::path(File()).filename().string(),
              testing::MatchesRegex("events\\.out\\.tfevents\\.1700000000\\..+\\.strata"));
  ASSERT_EQ(run.Append(RunEventsRecord(20), 10), absl::OkStatus());
  const std::vector<proto::Event> events = ReadEvents(File());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1'700'000'000);
  EXPECT_EQ(events[1].summary().value(0).tag(), "job");
  EXPECT_EQ(FrameEvent(events[2]), FrameEvent(MetricsEvent(RunEventsRecord(10), 1'700'000'000)));
  EXPECT_EQ(FrameEvent(events[3]), FrameEvent(MetricsEvent(RunEventsRecord(20), 1'700'000'000)));
}

TEST_F(RunEventsTest, AJobThatGoesOnFromAnOlderStepMakesLaterOnesVoid) {
  RunEvents first = Make();
  for (const uint64_t step : {10, 20, 30}) {
    ASSERT_EQ(first.Append(RunEventsRecord(step), step - 10), absl::OkStatus());
  }
  RunEvents second = Make(1'700'000'100);
  ASSERT_EQ(second.Append(RunEventsRecord(25), 15), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(10, 25));
  ASSERT_EQ(second.Append(RunEventsRecord(35), 25), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(10, 25, 35));
  const std::vector<proto::Event> events = ReadEvents(File());
  int jobs = 0, starts = 0;
  for (const proto::Event& event : events) {
    starts += event.has_session_log();
    jobs += event.summary().value_size() == 1 && event.summary().value(0).tag() == "job";
  }
  EXPECT_EQ(jobs, 1);
  EXPECT_EQ(starts, 1);
}

TEST_F(RunEventsTest, ARecordThatWasCutShortIsCutOffByTheNextOneWhoWrites) {
  RunEvents first = Make();
  ASSERT_EQ(first.Append(RunEventsRecord(10), 0), absl::OkStatus());
  const auto whole = std::filesystem::file_size(File());
  ASSERT_EQ(first.Append(RunEventsRecord(20), 10), absl::OkStatus());
  const std::string path = File();
  const auto bytes = std::filesystem::file_size(path);
  std::string content(bytes, '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(bytes));
  for (size_t cut = whole; cut < bytes; ++cut) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content.substr(0, cut);
    RunEvents second = Make();
    ASSERT_EQ(second.Append(RunEventsRecord(20), 10), absl::OkStatus());
    EXPECT_THAT(Steps(), ElementsAre(10, 20)) << cut;
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content.substr(0, 5);
  RunEvents third = Make();
  ASSERT_EQ(third.Append(RunEventsRecord(20), 10), absl::OkStatus());
  const std::vector<proto::Event> events = ReadEvents(path);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].file_version(), "brain.Event:2") << "nothing of it was whole";
}

TEST_F(RunEventsTest, WhoDoesNotKnowTheNewestStepMakesNothingVoid) {
  RunEvents first = Make(), second = Make();
  for (const uint64_t step : {10, 20}) {
    ASSERT_EQ(first.Append(RunEventsRecord(step), step - 10), absl::OkStatus());
  }
  ASSERT_EQ(second.Append(RunEventsRecord(15), std::nullopt), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(10, 15, 20));
}

TEST_F(RunEventsTest, NodesThatWriteOneAfterTheOtherWriteToOneFile) {
  RunEvents first = Make(), second = Make(1'700'000'100);
  ASSERT_EQ(first.Append(RunEventsRecord(10), 0), absl::OkStatus());
  ASSERT_EQ(second.Append(RunEventsRecord(20), 10), absl::OkStatus());
  first.Close();
  ASSERT_EQ(first.Append(RunEventsRecord(30), 20), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30));
}

TEST_F(RunEventsTest, ANewJobRemovesWhatJobsAndExportsWroteAndNotAProgramsOwn) {
  RunEvents run = Make();
  ASSERT_EQ(run.Append(RunEventsRecord(10), 0), absl::OkStatus());
  const std::string own = "events.out.tfevents.1700000000.host.1.0";
  std::ofstream(absl::StrCat(dir_, "/", own)) << "x";
  std::ofstream(absl::StrCat(dir_, "/", kExportedName)) << "x";
  EXPECT_EQ(EventFilesIn(dir_).size(), 3u);
  ASSERT_EQ(RemoveRunEvents(dir_), absl::OkStatus());
  EXPECT_THAT(EventFilesIn(dir_), ElementsAre(own));
  EXPECT_EQ(RemoveRunEvents(dir_ + "/none"), absl::OkStatus());
}

TEST_F(RunEventsTest, AFullDiskIsAnErrorThatNamesTheFileAndLeavesItReadable) {
  RunEvents run = Make();
  ASSERT_EQ(run.Append(RunEventsRecord(10), 0), absl::OkStatus());
  const std::string path = File();
  // A file that may not grow further simulates a full disk: the write is truncated.
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight = {std::filesystem::file_size(path) + 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const absl::Status status = run.Append(RunEventsRecord(20), 10);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("cannot write " + path));
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_EQ(run.Append(RunEventsRecord(20), 10), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
}

TEST_F(RunEventsTest, AFolderThatIsNotThereIsAnErrorThatNamesTheFile) {
  RunEvents run({.dir = dir_ + "/none", .job_text = ""});
  const absl::Status status = run.Append(RunEventsRecord(10), 0);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("cannot open " + dir_ + "/none/"));
}

}  // namespace
}  // namespace strata::tensorboard
