#include "worker/agent/run_directory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/log.h"
#include "common/tensorboard/event.pb.h"
#include "common/tensorboard/events.h"
#include "common/tensorboard/run_events.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/child_launch.h"
#include "worker/agent/job_processes.h"
#include "worker/agent/metrics_log.h"

namespace strata::worker {

namespace {

proto::JobRecord Record() {
  proto::JobRecord record;
  record.set_job_id(7);
  record.mutable_job()->set_name("lenet");
  auto* node = record.mutable_view()->add_nodes();
  node->set_node(0);
  node->set_ranks(2);
  return record;
}

std::string ReadRunDirectoryFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(RunDirectory, IsNamedAfterJobAndIdUnlessTheJobSays) {
  proto::JobRecord record = Record();
  EXPECT_EQ(ChooseRunDirectory(record, "/runs"), "/runs/lenet-7");
  EXPECT_EQ(ChooseRunDirectory(record, "runs"),
            std::filesystem::current_path().string() + "/runs/lenet-7");
  record.mutable_job()->set_run_dir("/elsewhere/x/");
  EXPECT_EQ(ChooseRunDirectory(record, "/runs"), "/elsewhere/x");
  record.mutable_job()->set_run_dir("mine/./x");
  EXPECT_EQ(ChooseRunDirectory(record, "/runs"), "/runs/mine/x");
}

TEST(RunDirectory, LiesBelowTheWorkersFolder) {
  const std::string top = testing::TempDir() + "below";
  std::filesystem::remove_all(top);
  std::filesystem::create_directories(top + "/real/inside");
  std::filesystem::create_directory_symlink(top + "/real", top + "/runs");
  for (const char* good : {"/a", "/a/b", "/inside", "/inside/x", "/..a", "/a..b"}) {
    EXPECT_EQ(CheckRunDirectory(top + "/runs" + good, top + "/runs"), absl::OkStatus()) << good;
    EXPECT_EQ(CheckRunDirectory(top + "/runs" + good, top + "/runs/"), absl::OkStatus()) << good;
  }
  std::filesystem::create_directory_symlink("/etc", top + "/real/link");
  proto::JobRecord record = Record();
  for (const char* bad : {"..", "../other", ".", "a/../..", "a/../../runs", "/etc", "/", "link",
                          "link/x", "inside/../link/x"}) {
    record.mutable_job()->set_run_dir(bad);
    const std::string run_dir = ChooseRunDirectory(record, top + "/runs");
    EXPECT_EQ(CheckRunDirectory(run_dir, top + "/runs").message(),
              "run_dir: " + run_dir + ": not below " + top +
                  "/runs, where this worker puts outputs (--runs); name a folder in it, such as "
                  "run_dir: \"mine\"")
        << bad;
  }
  EXPECT_FALSE(CheckRunDirectory(top + "/runs2/x", top + "/runs").ok());
}

TEST(RunDirectory, IsForThisUserAlone) {
  const std::string dir = testing::TempDir() + "/own/run";
  std::filesystem::remove_all(testing::TempDir() + "/own");
  ASSERT_TRUE(PrepareRunDirectory(dir, Record(), 0, true).ok());
  using std::filesystem::perms;
  for (const std::string& folder : {testing::TempDir() + "/own", dir, dir + "/logs"}) {
    EXPECT_EQ(std::filesystem::status(folder).permissions(), perms::owner_all) << folder;
  }
  const std::string shared = testing::TempDir() + "/shared-by-umask/run";
  std::filesystem::remove_all(testing::TempDir() + "/shared-by-umask");
  const mode_t before = umask(0027);
  EXPECT_TRUE(PrepareRunDirectory(shared, Record(), 0, true, RunAccess::kByUmask).ok());
  umask(before);
  EXPECT_EQ(std::filesystem::status(shared + "/logs").permissions(), perms(0750));
}

TEST(RunDirectory, HoldsTheJobAsRunAndNothingOfAnEarlierOne) {
  std::string dir = testing::TempDir() + "/run/lenet-7";
  std::filesystem::create_directories(dir + "/logs");
  for (const std::string& stale :
       {MetricsFile(dir), RankLog(dir, 1), AggregatorLog(dir, 0), dir + "/weights.node-0.hashes",
        dir + "/events.out.tfevents.1700000000.host.strata"}) {
    ASSERT_TRUE(AppendLine(stale, "stale").ok());
  }
  ASSERT_TRUE(AppendLine(RankLog(dir, 2), "of another node, once").ok());
  ASSERT_TRUE(PrepareRunDirectory(dir, Record(), 0, true).ok());
  EXPECT_EQ(ReadRunDirectoryFile(dir + "/job.textproto"), "name: \"lenet\"\n");
  EXPECT_FALSE(std::filesystem::exists(MetricsFile(dir)));
  EXPECT_FALSE(std::filesystem::exists(RankLog(dir, 1)));
  EXPECT_FALSE(std::filesystem::exists(AggregatorLog(dir, 0)));
  EXPECT_FALSE(std::filesystem::exists(dir + "/weights.node-0.hashes"));
  EXPECT_TRUE(tensorboard::EventFilesIn(dir).empty());
  EXPECT_FALSE(std::filesystem::exists(RankLog(dir, 2)));
  ASSERT_TRUE(AppendLine(RankLog(dir, 2), "of another node of this job").ok());
  ASSERT_TRUE(PrepareRunDirectory(dir, Record(), 0, true).ok());
  EXPECT_TRUE(std::filesystem::exists(RankLog(dir, 2)));
}

TEST(RunDirectory, OfAnyNodeThatMayComeToWriteIsAsNewWhereOthersDie) {
  const std::string dir = testing::TempDir() + "/run/next";
  std::filesystem::create_directories(dir + "/logs");
  for (const bool drops : {false, true}) {
    ASSERT_TRUE(AppendLine(MetricsFile(dir), "stale").ok());
    ASSERT_TRUE(AppendLine(dir + "/model.safetensors", "stale").ok());
    proto::JobRecord record = Record();
    record.mutable_view()->add_nodes()->set_node(1);
    if (drops) record.mutable_job()->set_on_loss(proto::Job::DROP);
    ASSERT_TRUE(PrepareRunDirectory(dir, record, 1, false).ok());
    EXPECT_EQ(std::filesystem::exists(MetricsFile(dir)), !drops);
    EXPECT_EQ(std::filesystem::exists(dir + "/model.safetensors"), !drops);
  }
}

TEST(RunDirectory, KeepsOfAnEarlierAttemptWhatIsNotMadeAgain) {
  const std::string dir = testing::TempDir() + "/attempts";
  ASSERT_TRUE(PrepareRunDirectory(dir, Record(), 0, true).ok());
  ASSERT_TRUE(AppendLine(RankLog(dir, 1), "why it failed").ok());
  for (const int step : {10, 20, 30}) {
    proto::MetricsRecord record;
    record.set_step(step);
    ASSERT_TRUE(AppendLine(MetricsFile(dir), MetricsLine(record)).ok());
  }
  ASSERT_TRUE(AppendLine(MetricsFile(dir), "{\"step\":2").ok());  // truncated
  proto::JobRecord record = Record();
  record.set_attempt(1);
  record.mutable_resume()->set_step(20);
  ASSERT_TRUE(PrepareRunDirectory(dir, record, 0, true).ok());
  EXPECT_EQ(ReadRunDirectoryFile(RankLog(dir, 1)), "why it failed\n");
  const std::string metrics = ReadRunDirectoryFile(MetricsFile(dir));
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 2) << metrics;
  EXPECT_NE(metrics.find("{\"step\":20,"), std::string::npos) << metrics;
}

TEST(RunDirectory, KeepsTheLocalStepsThatTheCheckpointHas) {
  const std::string dir = testing::TempDir() + "/local-steps";
  ASSERT_TRUE(PrepareRunDirectory(dir, Record(), 0, true).ok());
  for (const int step : {30, 40, 50}) {
    proto::MetricsRecord record;
    record.set_step(step);
    ASSERT_TRUE(AppendLine(MetricsFile(dir), MetricsLine(record)).ok());
  }
  proto::JobRecord record = Record();
  record.set_attempt(1);
  record.mutable_resume()->set_step(10);  // exchanges
  record.mutable_job()->mutable_optimizer()->mutable_mean();
  record.mutable_job()->mutable_consistency()->mutable_lazy()->set_local_steps(4);
  ASSERT_TRUE(PrepareRunDirectory(dir, record, 0, true).ok());
  EXPECT_EQ(KeepMetricsUpTo(UINT64_MAX, MetricsFile(dir))->step, 40);
  const std::string metrics = ReadRunDirectoryFile(MetricsFile(dir));
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 2) << metrics;
}

TEST(RunDirectory, KeepsOfANodesEarlierProcessesWhatIsTheJobsOwn) {
  const std::string dir = testing::TempDir() + "/incarnations";
  const auto prepare = [&](const proto::JobRecord& record, uint32_t incarnation) {
    EXPECT_TRUE(PrepareRunDirectory(dir, record, 0, true, RunAccess::kOwn, incarnation).ok());
  };
  prepare(Record(), 1);
  ASSERT_TRUE(AppendLine(RankLog(dir, 1), "why it died").ok());
  ASSERT_TRUE(AppendLine(MetricsFile(dir), "a line").ok());
  prepare(Record(), 2);
  EXPECT_EQ(ReadRunDirectoryFile(RankLog(dir, 1)), "why it died\n");
  EXPECT_EQ(ReadRunDirectoryFile(MetricsFile(dir)), "a line\n");
  // It comes to a worker where another job had written to a folder of that name.
  proto::JobRecord other = Record();
  other.set_job_id(8);
  prepare(other, 2);
  EXPECT_FALSE(std::filesystem::exists(RankLog(dir, 1)));
  EXPECT_FALSE(std::filesystem::exists(MetricsFile(dir)));
  EXPECT_TRUE(std::filesystem::exists(dir + "/job.textproto"));
}

// Two nodes lead a job, one after the other, and get the newest records again.
TEST(MetricsLog, WritesEachLineOnceWhereOthersWriteToo) {
  const std::string dir = testing::TempDir() + "/metrics_among_others";
  std::filesystem::create_directories(dir);
  const std::string path = MetricsFile(dir);
  std::filesystem::remove(path);
  proto::MetricsRecord record;
  record.set_samples(8);
  MetricsLog first(path, 0), second(path, 0);
  const auto append = [&](MetricsLog* log, int step) {
    record.set_step(step);
    ASSERT_TRUE(log->AppendAmongOthers(record).ok());
  };
  for (const int step : {10, 20}) append(&first, step);
  for (const int step : {10, 20, 30}) append(&second, step);
  for (const int step : {20, 30, 40}) append(&first, step);
  std::ifstream in(path);
  std::string line;
  std::vector<std::string> steps;
  while (std::getline(in, line)) steps.push_back(line.substr(0, line.find(',')));
  EXPECT_THAT(steps,
              testing::ElementsAre("{\"step\":10", "{\"step\":20", "{\"step\":30", "{\"step\":40"));
}

TEST(MetricsLog, GoesOnAfterTheLinesThatAreThere) {
  const std::string dir = testing::TempDir() + "/metrics_log";
  std::filesystem::create_directories(dir);
  const std::string path = MetricsFile(dir);
  proto::MetricsRecord record;
  record.set_samples(8);
  MetricsLog first(path, 0);
  for (const int step : {10, 20}) {
    record.set_step(step);
    ASSERT_TRUE(first.Append(record).ok());
  }
  proto::MetricsRecord late;
  late.set_step(15);
  late.set_test_accuracy(0.5);
  ASSERT_TRUE(first.Append(late).ok());
  const std::string lines = ReadRunDirectoryFile(path);
  std::ofstream(path, std::ios::app) << "{\"step\":30,\"sam";  // its process was killed

  MetricsLog second(path, 0);
  ASSERT_TRUE(second.GoOn().ok());
  EXPECT_EQ(ReadRunDirectoryFile(path), lines);
  for (const int step : {10, 20}) {
    record.set_step(step);
    ASSERT_TRUE(second.Append(record).ok());
  }
  ASSERT_TRUE(second.Append(late).ok());
  EXPECT_EQ(ReadRunDirectoryFile(path), lines) << "they are there";
  record.set_step(30);
  record.set_final(true);
  ASSERT_TRUE(second.Append(record).ok());
  EXPECT_EQ(ReadRunDirectoryFile(path), lines + MetricsLine(record) + "\n");

  MetricsLog third(path, 0);
  ASSERT_TRUE(third.GoOn().ok());
  EXPECT_TRUE(third.final_written());
  MetricsLog elsewhere(dir + "/none.jsonl", 0);
  EXPECT_TRUE(elsewhere.GoOn().ok());
  EXPECT_FALSE(elsewhere.final_written());
}

proto::MetricsRecord Measured(uint64_t step, uint64_t number, double value) {
  proto::MetricsRecord record;
  record.set_step(step);
  record.set_number(number);
  (*record.mutable_values())["loss"] = value;
  return record;
}

TEST(MetricsLog, HasALineForEachNumberedMeasurementOnce) {
  const std::string dir = testing::TempDir() + "/metrics_measured";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  const std::string path = MetricsFile(dir);
  MetricsLog log(path, 0);
  const std::vector<proto::MetricsRecord> records = {Measured(0, 1, 9), Measured(5, 2, 8),
                                                     Measured(5, 3, 7), Measured(5, 4, 7),
                                                     Measured(4, 5, 6)};
  std::string lines;
  for (const proto::MetricsRecord& record : records) lines += MetricsLine(record) + "\n";
  const auto append_all = [&](MetricsLog* to) {
    for (const proto::MetricsRecord& record : records) {
      ASSERT_EQ(to->Append(record), absl::OkStatus());
    }
  };
  append_all(&log);
  EXPECT_EQ(ReadRunDirectoryFile(path), lines);
  append_all(&log);  // the coordinator repeats them
  EXPECT_EQ(ReadRunDirectoryFile(path), lines);

  // The log's process was killed before the last two lines; the next process gets all again.
  std::filesystem::resize_file(
      path, lines.size() - MetricsLine(records[3]).size() - MetricsLine(records[4]).size() - 2);
  MetricsLog next(path, 0);
  ASSERT_TRUE(next.GoOn().ok());
  append_all(&next);
  EXPECT_EQ(ReadRunDirectoryFile(path), lines);
  ASSERT_TRUE(next.GoOn().ok());
  append_all(&next);
  EXPECT_EQ(ReadRunDirectoryFile(path), lines);
  // A new rank process continues with higher numbers.
  ASSERT_EQ(next.Append(Measured(5, (uint64_t{2} << 40) + 1, 7)), absl::OkStatus());
  EXPECT_EQ(ReadRunDirectoryFile(path), lines + MetricsLine(records[3]) + "\n");
}

TEST(MetricsLog, TakesATestLossAloneForAMeasurementNotForAWindow) {
  const std::string path = MetricsFile(testing::TempDir() + "/metrics_test_loss");
  std::filesystem::create_directories(testing::TempDir() + "/metrics_test_loss");
  std::filesystem::remove(path);
  proto::MetricsRecord tested;
  tested.set_step(10);
  tested.set_number(3);
  tested.set_test_loss(0.5);
  proto::MetricsRecord window;
  window.set_step(10);
  window.set_samples(8);
  MetricsLog log(path, 0);
  ASSERT_EQ(log.Append(tested), absl::OkStatus());
  ASSERT_EQ(log.Append(window), absl::OkStatus());
  EXPECT_EQ(ReadRunDirectoryFile(path),
            "{\"step\":10,\"test_loss\":0.5,\"elapsed_s\":0.0}\n" + MetricsLine(window) + "\n");
}

// Returns the steps that TensorBoard shows of a run directory, in order.
std::vector<int64_t> StepsShown(const std::string& dir) {
  std::vector<int64_t> steps;
  for (const std::string& name : tensorboard::EventFilesIn(dir)) {
    std::ifstream in(dir + "/" + name, std::ios::binary);
    tensorboard::RecordReader reader(&in);
    for (std::string payload; reader.Next(&payload);) {
      tensorboard::proto::Event event;
      EXPECT_TRUE(event.ParseFromString(payload));
      if (event.has_session_log()) {
        std::erase_if(steps, [&](int64_t step) { return step >= event.step(); });
      }
      if (event.summary().value_size() > 1) steps.push_back(event.step());
    }
  }
  return steps;
}

TEST(MetricsLog, WritesEventsOfTheStepsThatItHasLinesOf) {
  const std::string dir = testing::TempDir() + "/metrics_events";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  const std::string path = MetricsFile(dir);
  const auto make = [&](uint64_t first_step) {
    return MetricsLog(path, first_step, tensorboard::RunEvents({.dir = dir, .job_text = "a: 1"}));
  };
  proto::MetricsRecord record;
  record.set_samples(8);
  const auto append = [&](MetricsLog* log, int step) {
    record.set_step(step);
    ASSERT_EQ(log->Append(record), absl::OkStatus());
  };
  MetricsLog first = make(0);
  for (const int step : {10, 20, 20, 30}) append(&first, step);
  EXPECT_THAT(StepsShown(dir), testing::ElementsAre(10, 20, 30));

  // The job resumes from step 20.
  ASSERT_TRUE(KeepMetricsUpTo(20, path).ok());
  MetricsLog second = make(20);
  append(&second, 25);
  EXPECT_THAT(StepsShown(dir), testing::ElementsAre(10, 20, 25));

  // Its process was killed between an event and its line; the next process writes others.
  append(&second, 30);
  ASSERT_TRUE(KeepMetricsUpTo(25, path).ok());
  MetricsLog third = make(0);
  ASSERT_TRUE(third.GoOn().ok());
  append(&third, 35);
  EXPECT_THAT(StepsShown(dir), testing::ElementsAre(10, 20, 25, 35));

  // The last record of an ended job.
  record.set_step(32);
  ASSERT_EQ(make(0).AppendAfterEnd(record), absl::OkStatus());
  EXPECT_THAT(StepsShown(dir), testing::ElementsAre(10, 20, 25, 35, 32));
  EXPECT_EQ(KeepMetricsUpTo(UINT64_MAX, path)->step, 35);
}

TEST(MetricsLog, FailsWhereAnEventCannotBeWrittenAndWritesNoLine) {
  const std::string dir = testing::TempDir() + "/metrics_no_events";
  std::filesystem::create_directories(dir);
  MetricsLog log(MetricsFile(dir), 0,
                 tensorboard::RunEvents({.dir = dir + "/none", .job_text = ""}));
  proto::MetricsRecord record;
  record.set_step(10);
  EXPECT_THAT(std::string(log.Append(record).message()),
              testing::StartsWith("cannot open " + dir + "/none/events.out.tfevents."));
  EXPECT_FALSE(std::filesystem::exists(MetricsFile(dir)));
}

TEST(NodeProcesses, ANewerWordReplacesWhatRuns) {
  const NodeProcesses runs{.attempt = 1, .node = 2, .incarnation = 3};
  EXPECT_FALSE(runs.Replaces(runs));
  EXPECT_TRUE((NodeProcesses{1, 2, 4}).Replaces(runs));
  EXPECT_FALSE((NodeProcesses{1, 2, 2}).Replaces(runs)) << "old news";
  EXPECT_TRUE((NodeProcesses{2, 2, 1}).Replaces(runs));
  EXPECT_FALSE((NodeProcesses{0, 2, 9}).Replaces(runs));
  EXPECT_TRUE((NodeProcesses{1, 0, 2}).Replaces(runs)) << "the worker has another place now";
}

TEST(RunDirectory, KeepsTheOutputOfAJobThatStillWritesIt) {
  std::string dir = testing::TempDir() + "/shared";
  auto claim = PrepareRunDirectory(dir, Record(), 0, true);
  ASSERT_TRUE(claim.ok()) << claim.status();
  ASSERT_TRUE(AppendLine(MetricsFile(dir), "a line").ok());
  ASSERT_TRUE(AppendLine(RankLog(dir, 0), "a line").ok());
  proto::JobRecord other = Record();
  other.set_job_id(8);
  EXPECT_EQ(PrepareRunDirectory(dir, other, 0, true).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReadRunDirectoryFile(MetricsFile(dir)), "a line\n");
  EXPECT_EQ(ReadRunDirectoryFile(RankLog(dir, 0)), "a line\n");
  claim->Reset();
  EXPECT_TRUE(PrepareRunDirectory(dir, other, 0, true).ok());
  EXPECT_FALSE(std::filesystem::exists(MetricsFile(dir)));
}

TEST(RunDirectory, NamesTheDirectoryThatCannotBeWritten) {
  std::string file = testing::TempDir() + "/a-file";
  ASSERT_TRUE(AppendLine(file, "").ok());
  absl::Status status = PrepareRunDirectory(file + "/lenet-7", Record(), 0, true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "cannot write to run directory " + file + "/lenet-7: " + file + ": Not a directory");
}

// An earlier program may have replaced the folder of logs by a link.
TEST(RunDirectory, IsRefusedWhereItsLogsAreALinkAndWhatThatLeadsToStays) {
  const std::string top = testing::TempDir() + "/linked", dir = top + "/run";
  std::filesystem::remove_all(top);
  ASSERT_TRUE(PrepareRunDirectory(dir, Record(), 0, true).ok());
  std::filesystem::rename(dir + "/logs", top + "/elsewhere");
  std::filesystem::create_directory_symlink(top + "/elsewhere", dir + "/logs");
  for (const char* log : {"/rank0.log", "/rank0.log.cut", "/aggregator-node0.log"}) {
    ASSERT_TRUE(AppendLine(top + "/elsewhere" + log, "of others").ok());
  }
  proto::JobRecord other = Record();
  other.set_job_id(8);
  for (const proto::JobRecord& record : {Record(), other}) {
    const absl::Status status = PrepareRunDirectory(dir, record, 0, true).status();
    EXPECT_EQ(status, absl::FailedPreconditionError("cannot write to run directory " + dir + ": " +
                                                    dir + "/logs: a symbolic link, not a folder"));
  }
  for (const char* log : {"/rank0.log", "/rank0.log.cut", "/aggregator-node0.log"}) {
    EXPECT_EQ(ReadRunDirectoryFile(top + "/elsewhere" + log), "of others\n");
  }
}

TEST(RunDirectory, FindsTheLastLineOfALogThatIsNotBlank) {
  std::string log = testing::TempDir() + "/some.log";
  ASSERT_TRUE(AppendLine(log, std::string(10'000, 'x')).ok());
  ASSERT_TRUE(AppendLine(log, "  the reason \n\n").ok());
  EXPECT_EQ(LastLine(log), "the reason");
  EXPECT_EQ(LastLine(log + ".absent"), "");
}

TEST(RunDirectory, TakesNoLineThatOnlyInformsForAReason) {
  const std::string log = testing::TempDir() + "/informed.log";
  ASSERT_TRUE(AppendLine(log, "2026-11-21T21:50:26.086Z info    [rank 0] job 3: trains").ok());
  EXPECT_EQ(LastLine(log), "");
  const std::string warning = "2026-11-21T21:50:27.100Z warning [rank 0] the disk is full";
  ASSERT_TRUE(AppendLine(log, warning).ok());
  ASSERT_TRUE(AppendLine(log, "2026-11-21T21:50:28.000Z info    [rank 0] step 7").ok());
  EXPECT_EQ(LastLine(log), warning);
}

TEST(MetricsLine, HasStableFieldNames) {
  proto::MetricsRecord record;
  record.set_step(50);
  record.set_loss(0.5);
  record.add_staleness(3);
  record.add_staleness(1);
  EXPECT_EQ(MetricsLine(record),
            R"({"step":50,"samples":0,"epoch":0.0,"loss":0.5,"samples_per_s":0.0,)"
            R"("bytes_pushed":0,"bytes_answered":0,"staleness":[3,1],"waiting_share":0.0,)"
            R"("elapsed_s":0.0,"pushes":0,"pushes_during_backward":0,"lr":0.0})");
  record.set_test_accuracy(0.875);
  record.set_hidden_share(0.25);
  record.set_final(true);
  EXPECT_NE(MetricsLine(record).find(R"("hidden_share":0.25)"), std::string::npos);
  EXPECT_NE(MetricsLine(record).find(R"("test_accuracy":0.875)"), std::string::npos);
  EXPECT_NE(MetricsLine(record).find(R"("final":true)"), std::string::npos);
}

TEST(MetricsLine, HasValuesByName) {
  proto::MetricsRecord record;
  record.set_step(50);
  record.set_elapsed_s(2);
  (*record.mutable_values())["perplexity"] = 12.5;
  (*record.mutable_values())["bleu"] = 0.25;
  EXPECT_EQ(MetricsLine(record),
            R"({"step":50,"values":{"bleu":0.25,"perplexity":12.5},"elapsed_s":2.0})");
  record.set_samples(100);
  EXPECT_NE(MetricsLine(record).find(R"("values":{"bleu":0.25,"perplexity":12.5},"elapsed_s")"),
            std::string::npos);
}

TEST(MetricsLine, HasNothingButTheTestOfWeightsThatWereMeasuredLate) {
  proto::MetricsRecord record;
  record.set_step(50);
  record.set_test_accuracy(0.5);
  record.set_test_loss(1.5);
  record.set_elapsed_s(2);
  EXPECT_EQ(MetricsLine(record),
            R"({"step":50,"test_accuracy":0.5,"test_loss":1.5,"elapsed_s":2.0})");
}

// Tests that processes started by a worker log in the worker's format.

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(ChildLaunch, AnAggregatorLogsInTheWorkersFormat) {
  EXPECT_THAT(
      ChildArguments({}, /*is_aggregator=*/true),
      ElementsAre("strata", "aggregator", "--launch", "/proc/self/fd/4", "--log-format", "text"));
  SetLogFormat(LogFormat::kJson);
  const auto aggregator = ChildArguments({}, /*is_aggregator=*/true);
  const auto rank = ChildArguments({}, /*is_aggregator=*/false);
  SetLogFormat(LogFormat::kText);
  EXPECT_THAT(aggregator, ElementsAre("strata", "aggregator", "--launch", "/proc/self/fd/4",
                                      "--log-format", "json"));
  EXPECT_THAT(rank, Not(Contains("--log-format")));
}

TEST(RunDirectory, TakesTheMessageOfALogLineThatIsJson) {
  const std::string log = testing::TempDir() + "/json.log";
  const auto line = [](LogLevel level, const std::string& message) {
    return JsonLogLine(absl::FromUnixSeconds(1), level, "aggregator of node 1", message);
  };
  ASSERT_TRUE(AppendLine(log, line(LogLevel::kInfo, "step 7")).ok());
  EXPECT_EQ(LastLine(log), "");
  ASSERT_TRUE(AppendLine(log, line(LogLevel::kError, "the \"disk\" is full")).ok());
  ASSERT_TRUE(AppendLine(log, line(LogLevel::kDebug, "ends")).ok());
  EXPECT_EQ(LastLine(log), "the \"disk\" is full");
  const std::string of_a_program = R"({"level":"info","message":"mine"})";
  ASSERT_TRUE(AppendLine(log, of_a_program).ok());
  EXPECT_EQ(LastLine(log), of_a_program);
}

}  // namespace

}  // namespace strata::worker
