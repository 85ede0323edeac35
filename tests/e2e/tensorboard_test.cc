// Events for TensorBoard: a job writes while it runs what an export of its metrics contains.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/tensorboard/event.pb.h"
#include "common/tensorboard/events.h"
#include "common/tensorboard/run_events.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::Contains;
using testing::Key;
using testing::SizeIs;

// Steps and their values, by tag.
using Points = std::map<std::string, std::vector<std::pair<int64_t, float>>>;

// Returns what TensorBoard shows of a folder; all records of its one event file must be complete.
Points PointsIn(const std::string& dir) {
  const std::vector<std::string> names = tensorboard::EventFilesIn(dir);
  EXPECT_THAT(names, SizeIs(1)) << dir;
  if (names.size() != 1) return {};
  const std::string path = dir + "/" + names[0];
  std::ifstream in(path, std::ios::binary);
  tensorboard::RecordReader reader(&in);
  Points points;
  for (std::string payload; reader.Next(&payload);) {
    tensorboard::proto::Event event;
    EXPECT_TRUE(event.ParseFromString(payload));
    for (auto& [tag, values] : points) {
      if (!event.has_session_log()) break;
      std::erase_if(values, [&](const auto& point) { return point.first >= event.step(); });
    }
    for (const auto& value : event.summary().value()) {
      if (!value.has_tensor()) points[value.tag()].emplace_back(event.step(), value.simple_value());
    }
  }
  EXPECT_EQ(reader.whole_bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
  return points;
}

Points Exported(const std::string& run_dir) {
  const std::string out = TestDir() + "/exported";
  const CommandResult result = RunStrata({"export", "tensorboard", run_dir, "--out", out});
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return PointsIn(out);
}

TEST(TensorBoardEvents, OfALocalJobHaveTheFloatsOfItsMetrics) {
  proto::Job job = LenetJob("drawn", 4, 2, 60);
  job.mutable_metrics()->set_every_steps(10);
  job.set_tensorboard(true);
  const std::string runs = TestDir() + "/runs";
  const CommandResult result =
      RunStrata({"local", "--nodes", "2", "--slots", "2", "--servers", "1", "--runs", runs,
                 "--log-level", "error", "--job", WriteJob(TestDir(), job)});
  ASSERT_EQ(result.status.code, 0) << result.err;
  const std::string run_dir = runs + "/drawn-1";
  const Points points = PointsIn(run_dir);
  std::vector<std::pair<int64_t, float>> losses;
  for (const nlohmann::json& line : Metrics(run_dir)) {
    const bool has_window = line.contains("samples_per_s") && line["samples_per_s"] > 0;
    if (!has_window) continue;
    losses.emplace_back(line["step"], static_cast<float>(line["loss"].get<double>()));
  }
  EXPECT_THAT(losses, SizeIs(7)) << "one more ends with the first epoch, after 32 steps";
  EXPECT_THAT(points, Contains(Key("test/accuracy")));
  EXPECT_THAT(points, Contains(Key("train/waiting_share")));
  EXPECT_EQ(points.at("train/loss"), losses);
  EXPECT_EQ(points, Exported(run_dir));

  const CommandResult again = RunStrata({"export", "tensorboard", run_dir});
  EXPECT_EQ(again.status.code, 2) << "the job's own events are there";
  EXPECT_THAT(again.err, testing::HasSubstr("--out"));
}

class TensorBoardOfDeaths : public Checkpointed {};

TEST_F(TensorBoardOfDeaths, StepsThatAreMadeAgainAreDrawnOnce) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 2});
  proto::Job job = CheckpointedJob("victim", 2, 120);
  job.mutable_metrics()->set_every_steps(5);
  job.set_tensorboard(true);
  GoOnByItself(&job);
  SlowDown(&job, 20);
  const JobId id = Submit(job);
  AwaitCheckpoint(id, 20);
  // Some steps after the checkpoint; they have been drawn when its rank dies.
  cluster_->WaitForStep(id, cluster_->Status(id).progress().step() + 12);
  kill(ListProcesses("rank").front(), SIGKILL);
  const proto::JobStatus status = cluster_->WaitForEnd(id);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.restarts_size(), 1);
  const Points points = PointsIn(status.run_dir());
  constexpr size_t kEpochs = 3;  // ended within a window, which ends with them
  EXPECT_THAT(points.at("train/loss"), SizeIs(120 / 5 + kEpochs));
  EXPECT_EQ(points, Exported(status.run_dir()));
}

}  // namespace
}  // namespace strata::tests
