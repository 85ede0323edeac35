#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/render/compare_display.h"
#include "cli/render/log_lines.h"
#include "cli/render/render.h"
#include "common/job/job.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/runner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

proto::LogLines LinesOf(uint32_t rank, const std::string& lines) {
  proto::LogLines of;
  of.mutable_process()->set_rank(rank);
  of.set_lines(lines);
  return of;
}

TEST(TerminalLine, LeavesColoursAndWritesOutWhatElseATerminalWouldObey) {
  EXPECT_EQ(TerminalLine("plain \t caf\xc3\xa9"), "plain \t caf\xc3\xa9");
  EXPECT_EQ(TerminalLine("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m\x1b[0m");
  EXPECT_EQ(TerminalLine("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(TerminalLine("\xc2\x9b"
                         "2J\xc2\xa0|"),
            "\\u009b2J\xc2\xa0|");
  EXPECT_EQ(TerminalLine(std::string("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(TerminalLine("\x1b[31"), "\\x1b[31");
}

TEST(PlainLine, HasNoColours) {
  EXPECT_EQ(PlainLine("\x1b[1;31mred\x1b[0m and \x1b[2J \x07"), "red and \\x1b[2J \\x07");
  EXPECT_EQ(PlainLine("10%\r\x1b[32m100%\x1b[0m\r"), "100%");
}

TEST(TerminalLine, OfAProgressBarTheLastStateIsLeft) {
  EXPECT_EQ(TerminalLine("10%\r50%\r100%\r"), "100%");
  EXPECT_EQ(TerminalLine("windows\r"), "windows");
  EXPECT_EQ(TerminalLine("\r"), "");
}

TEST(LogLinesText, SeveralProcessesBearTheirNames) {
  const proto::LogLines rank = LinesOf(3, "a\n\nb\x07\n");
  EXPECT_EQ(LogLinesText(rank, LogLinesForm::kRaw, true), "[3] a\n[3] \n[3] b\x07\n");
  EXPECT_EQ(LogLinesText(rank, LogLinesForm::kTerminal, false), "a\n\nb\\x07\n");
  proto::LogLines aggregator = LinesOf(0, "x\n");
  aggregator.mutable_process()->set_aggregator_node(1);
  EXPECT_EQ(LogLinesText(aggregator, LogLinesForm::kRaw, true), "[aggregator 1] x\n");
  EXPECT_EQ(LogLinesText(aggregator, LogLinesForm::kJson, false),
            "{\"aggregator_node\":1,\"line\":\"x\"}\n");
}

TEST(LogLinesText, JsonTakesAnyBytes) {
  EXPECT_EQ(LogLinesText(LinesOf(3, "\"\xff\x1b\n"), LogLinesForm::kJson, false),
            "{\"rank\":3,\"line\":\"\\\"\xef\xbf\xbd\\u001b\"}\n");
  proto::LogLines failed = LinesOf(2, "");
  failed.set_error("rank 2's log is gone");
  EXPECT_EQ(LogErrorJson(failed), "{\"rank\":2,\"error\":\"rank 2's log is gone\"}\n");
  failed.clear_process();
  EXPECT_EQ(LogErrorJson(failed), "{\"error\":\"rank 2's log is gone\"}\n");
}

class LogTailTest : public testing::Test {
 protected:
  LogTailTest()
      : path_(testing::TempDir() + "/" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".log") {}
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  const std::string path_;
};

TEST_F(LogTailTest, GivesEachWholeLineOnce) {
  LogTail tail(path_, "");
  EXPECT_EQ(tail.Read(), "");
  Append("one\ntw");
  EXPECT_EQ(tail.Read(), "one\n");
  EXPECT_EQ(tail.Read(), "");
  Append("o\nthree\n");
  EXPECT_EQ(tail.Read(), "two\nthree\n");
  Append("last");
  EXPECT_EQ(tail.Read(), "");
  EXPECT_EQ(tail.Read(/*all=*/true), "last\n");
  EXPECT_EQ(tail.Read(/*all=*/true), "");
}

TEST_F(LogTailTest, PutsThePrefixBeforeEachLine) {
  LogTail tail(path_, "rank 3: ");
  Append("one\n\ntwo\n");
  EXPECT_EQ(tail.Read(), "rank 3: one\nrank 3: \nrank 3: two\n");
}

TEST_F(LogTailTest, ReadsALargeFileInPartsAndCutsALineWithoutEnd) {
  LogTail tail(path_, "");
  const std::string line(LogTail::kBytesMax - 1, 'x');
  Append(line + "\n" + line + "yz\n");
  EXPECT_EQ(tail.Read(), line + "\n");
  EXPECT_EQ(tail.Read(), line + "y\n");
  EXPECT_EQ(tail.Read(), "z\n");
}

TEST_F(LogTailTest, FindsItsPlaceAgainWhereTheMiddleIsCutOut) {
  LogTail tail(path_, ""), late(path_, "");
  const std::string line(99, 'x');
  for (int i = 0; i < 500; ++i) Append(line + "\n");
  const std::string first = tail.Read();
  EXPECT_EQ(first.size(), 50'000u);
  for (int i = 0; i < 500; ++i) Append(std::string(99, 'y') + "\n");
  LogCutter cutter({.path = path_, .bytes_max = 64 << 10});
  cutter.Cut(/*last=*/true);
  const LogCut cut = ReadLogCut(path_);
  ASSERT_EQ(cut.head, 32u << 10);
  // The lines after the place, some of which are gone, and the line that says so.
  const std::string more = tail.Read();
  EXPECT_NE(more.find(" bytes are missing here: "), std::string::npos);
  EXPECT_EQ(std::count(more.begin(), more.end(), 'x'), 0);
  EXPECT_GT(std::count(more.begin(), more.end(), 'y'), 28'000);
  Append("last\n");
  EXPECT_EQ(tail.Read(), "last\n");
  EXPECT_EQ(late.Read().size(), std::filesystem::file_size(path_));
}

TEST_F(LogTailTest, WaitsForNoPipe) {
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(LogTail(path_, "").Read(/*all=*/true), "");
}

}  // namespace

namespace {

compare::RunPlan PlanOf(const std::string& mode, uint64_t seed) {
  compare::RunPlan plan;
  plan.mode = mode;
  plan.job.set_seed(seed);
  return plan;
}

// The fifth of 21 runs, of which 3 were there before and 1 was made in 10 s.
compare::CourseProgress FifthOf21(const compare::RunPlan& plan) {
  compare::CourseProgress progress;
  progress.runs = 21;
  progress.number = 5;
  progress.to_make = 18;
  progress.made = 1;
  progress.plan = &plan;
  progress.elapsed = absl::Seconds(10);
  return progress;
}

// Captures a display's output.
class CompareDisplayTest : public ::testing::Test {
 protected:
  CompareDisplayTest() : out_(open_memstream(&text_, &size_)) {}
  ~CompareDisplayTest() override {
    std::fclose(out_);
    std::free(text_);
  }
  std::string Written() {
    std::fflush(out_);
    return std::string(text_, size_);
  }

  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* out_;
};

TEST(CompareLines, ARunEndsWithAccuracyAndTimeOrWhyItFailed) {
  const compare::RunPlan plan = PlanOf("async", 2);
  proto::RunRecord record;
  record.set_trained_s(12.345);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record), "[5/21] async, seed 2: finished after 12.3 s");
  record.add_measurements()->set_accuracy(0.5);
  record.add_measurements()->set_accuracy(0.871);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s");
  record.set_steps(50);
  record.set_resumed_step(25);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s, of which 25 of 50 steps were "
            "there");
  record.clear_resumed_step();
  record.set_began_anew("no complete checkpoint in /c");
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s; it began anew: no complete "
            "checkpoint in /c");
  record.set_failure("rank 0: loss is NaN at step 3");
  record.set_has_diverged(true);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: failed: rank 0: loss is NaN at step 3");
  record.set_failure("rank 0: killed by signal 9");
  record.set_has_diverged(false);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: failed: rank 0: killed by signal 9 (the same command makes this "
            "run again)");
}

TEST(CompareLines, TheTimeThatIsLeftFollowsFromWhatThisCallHasMade) {
  const compare::RunPlan plan = PlanOf("async", 2);
  compare::CourseProgress progress = FifthOf21(plan);
  EXPECT_EQ(CourseLine(progress), "[5/21] async, seed 2  campaign 19 %  ETA 2:50");  // 17 x 10 s
  progress.run = {.done = 0.25, .text = "step 5/20"};
  EXPECT_EQ(CourseLine(progress), "[5/21] async, seed 2  step 5/20  campaign 20 %  ETA 2:14");
  progress.others = 2;
  progress.others_done = 0.75;
  EXPECT_EQ(CourseLine(progress),
            "[5/21] async, seed 2  step 5/20  +2 at once  campaign 24 %  ETA 1:20");
  progress.others = 0;
  progress.others_done = 0;
  progress.made = 0;
  progress.run = {};
  EXPECT_EQ(CourseLine(progress), "[5/21] async, seed 2  campaign 14 %");
}

TEST(CompareLines, NothingIsKnownOfTheTimeLeftBeforeAnythingIsMade) {
  const compare::RunPlan plan = PlanOf("async", 2);
  compare::CourseProgress progress = FifthOf21(plan);
  EXPECT_EQ(SecondsLeft(progress), 170);  // 17 of 18 runs, of 10 s each
  progress.made = 0;
  EXPECT_EQ(SecondsLeft(progress), std::nullopt);
}

TEST(CompareLines, StragglersInWords) {
  proto::Job job;
  EXPECT_EQ(StragglerWords(job), "");
  proto::Delay* delay = job.mutable_debug()->add_delays();
  delay->set_node(1);
  delay->set_slow(4);
  delay = job.mutable_debug()->add_delays();
  delay->set_node(2);
  delay->set_delay_ms(30);
  delay->set_jitter_ms(10);
  EXPECT_EQ(StragglerWords(job),
            "node 1 takes 4 times as long; node 2 stands still for 30 ms (10 ms more or less) a "
            "step");
}

TEST(CompareLines, ARunThatLacksTheMetricSaysSo) {
  const compare::RunPlan plan = PlanOf("async", 2);
  proto::RunRecord record;
  record.set_steps(10);
  record.set_trained_s(2);
  record.add_measurements()->set_accuracy(0.5);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record, {.name = "bleu"}),
            "[5/21] async, seed 2: finished after 2.0 s; no bleu was reported, but "
            "test_accuracy: --metric NAME takes one of those");
}

// Makes runs that report a perplexity.
class PerplexityRunner final : public compare::Runner {
 public:
  absl::Status Check(const compare::RunPlan&) override { return absl::OkStatus(); }
  absl::StatusOr<proto::RunRecord> Run(const compare::RunPlan& plan, const OnProgress&) override {
    ++runs;
    proto::RunRecord record;
    record.set_mode(plan.mode);
    record.set_seed(plan.job.seed());
    *record.mutable_job() = plan.job;
    record.set_steps(10);
    (*record.add_measurements()->mutable_values())["perplexity"] = 20;
    return record;
  }
  void Stop() override {}

  int runs = 0;
};

TEST(ShownCourse, RunsThatLackTheMetricAreNotFollowedByOthers) {
  const auto job = ParseJob(R"(
      name: "tiny" model { zoo: "mlp" }
      data { synthetic { train_samples: 64 test_samples: 8 } batch_per_rank: 8 }
      ranks: 2 epochs: 1)",
                            "tiny.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto campaign = compare::PlanCampaign({.job = *job, .modes = "sync", .seeds = 3});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const std::string dir = testing::TempDir() + "/shown-course";
  std::filesystem::remove_all(dir);
  const auto folder = compare::CampaignFolder::Open(dir, *campaign);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ((*folder)->Begin(), absl::OkStatus());
  const auto plans = compare::PlanRuns(*campaign);
  ASSERT_EQ(plans->size(), 3u);
  PerplexityRunner runner;
  const auto make = [&](const std::string& metric) {
    return ShownCourse({.name = metric}).Make(*plans, folder->get(), {&runner}).status();
  };
  const absl::Status refused = absl::FailedPreconditionError(
      "no run so far is of use: no bleu was reported, but perplexity: --metric NAME takes one of "
      "those");
  EXPECT_EQ(make("bleu"), refused);
  EXPECT_EQ(runner.runs, 1);
  EXPECT_EQ(make("bleu"), refused) << "by the run that is there";
  EXPECT_EQ(runner.runs, 1);
  EXPECT_EQ(make("perplexity"), absl::OkStatus());
  EXPECT_EQ(runner.runs, 3);
  EXPECT_EQ(make("bleu"), absl::OkStatus()) << "all are there: the report says so";
}

TEST_F(CompareDisplayTest, ElsewhereThanOnATerminalThereAreOnlyEnds) {
  const compare::RunPlan plan = PlanOf("sync", 1);
  CompareDisplay display(out_, 0);
  display.ShowProgress(FifthOf21(plan));
  EXPECT_EQ(Written(), "");
  display.ShowEnd(FifthOf21(plan), proto::RunRecord());
  EXPECT_EQ(Written(), "[5/21] sync, seed 1: finished after 0.0 s\n");
}

TEST_F(CompareDisplayTest, TheLiveLineIsCutAndMakesRoomForAnEnd) {
  const compare::RunPlan plan = PlanOf("sync", 1);
  CompareDisplay display(out_, 20);
  display.ShowProgress(FifthOf21(plan));
  EXPECT_EQ(Written(), "\r\033[K[5/21] sync, seed 1");
  display.ShowEnd(FifthOf21(plan), proto::RunRecord());
  EXPECT_EQ(Written(),
            "\r\033[K[5/21] sync, seed 1\r\033[K[5/21] sync, seed 1: finished after 0.0 s\n");
}

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes of two ranks, 1 MiB in 64 chunks on two shards.
struct Example {
  proto::JobRecord record;
  proto::JobStatus status;

  explicit Example(proto::Job::Exchange exchange) {
    proto::Job& job = *record.mutable_job();
    job.set_exchange(exchange);
    job.set_window(4);
    job.set_ranks(4);
    job.mutable_optimizer()->mutable_adam();
    FillDefaults(&job);
    record.mutable_layout()->set_elements(1 << 18);
    proto::Segment* segment = record.mutable_layout()->add_segments();
    segment->set_name("w");
    segment->add_shape(1 << 18);
    segment->set_lr_multiplier(1);
    segment->set_decay_multiplier(1);
    proto::Placement& placement = *record.mutable_placement();
    placement.set_generation(1);
    placement.set_chunk_elements(4096);
    record.mutable_view()->set_number(1);
    for (uint32_t i = 0; i < 2; ++i) {
      proto::LogicalNode* logical = record.mutable_view()->add_nodes();
      logical->set_node(i);
      logical->set_first_rank(2 * i);
      logical->set_ranks(2);
      proto::JobNodeStatus* node = status.add_nodes();
      node->set_node(i);
      node->set_daemon("w" + std::to_string(i));
      node->set_ranks(2);
    }
    status.set_chunks(64);
    if (exchange != proto::Job::PARAMETER_SERVER) return;
    for (uint32_t i = 0; i < 2; ++i) {
      placement.add_shard_endpoints("tcp://h:" + std::to_string(i));
      status.add_shards()->set_daemon("s" + std::to_string(i));
    }
    for (uint32_t c = 0; c < 64; ++c) placement.add_shard_of_chunk(c % 2);
  }
};

TEST(MemoryParts, OfASyncJobStandInATableWithMultiplesOfTheModel) {
  Example example(proto::Job::PARAMETER_SERVER);
  AddMemoryParts(example.record, &example.status);
  EXPECT_EQ(
      MemoryTable(example.status),
      "  memory of    for                                             at most    x the model\n"
      "  node 0 (w0)  shared memory (1 + 2) x 1.0 MiB and its counts  3.0 MiB    3.039\n"
      "               first weights 2 x 1.0 MiB                       2.0 MiB    2.000\n"
      "               messages 2 x 2 x 4 x 16.0 KiB                   256.0 KiB  0.250\n"
      "               sum                                             5.3 MiB    5.289\n"
      "               of 2 nodes                                      10.6 MiB   10.578\n"
      "  s0 shard 0   weights                                         512.0 KiB  0.500\n"
      "               chunk in update                                 16.0 KiB   0.016\n"
      "               optimizer state 2 x 512.0 KiB                   1.0 MiB    1.000\n"
      "               held sums (2 x 4 - 1) x 16.0 KiB                112.0 KiB  0.109\n"
      "               messages 2 x 2 x 4 x 16.0 KiB                   256.0 KiB  0.250\n"
      "               sum                                             1.9 MiB    1.875\n"
      "               of 2 shards                                     3.8 MiB    3.750\n");
  const auto json = nlohmann::json::parse(JobJson(example.status));
  const auto part = json["shards"][1]["memory_parts"][2];
  EXPECT_EQ(part["name"], "optimizer state 2 x 512.0 KiB");
  EXPECT_EQ(part["limit_bytes"], 1 << 20);
  EXPECT_EQ(part["model_sizes"], 1.0);
  EXPECT_EQ(json["nodes"][1]["memory_parts"].size(), 3u);
}

TEST(MemoryParts, OfAnAllReduceAreOfItsNodesOnly) {
  Example example(proto::Job::RING);
  AddMemoryParts(example.record, &example.status);
  const auto& parts = example.status.nodes(0).memory_parts();
  ASSERT_EQ(parts.size(), 4);
  EXPECT_EQ(parts[2].name(), "own slices 3 x 512.0 KiB");
  EXPECT_NEAR(parts[2].model_sizes(), 1.5, 1e-4);
  EXPECT_EQ(parts[3].model_sizes(), 0.25);
}

// Each node has its two ranks on two GPUs, which shows in what its daemon promises.
TEST(MemoryParts, OfAJobOnGpusAreThoseOfTheGpusToo) {
  Example example(proto::Job::PARAMETER_SERVER);
  example.record.mutable_job()->set_device(proto::Job::GPU);
  // 1 MiB is part of 2 MiB.
  const uint64_t promised = (8 << 20) + 2 * (16384 + 4) + 2 * 16384;
  for (proto::JobNodeStatus& node : *example.status.mutable_nodes()) {
    node.set_gpu_memory_bytes(1 << 20);
    node.set_gpu_memory_limit_bytes(promised);
  }
  AddMemoryParts(example.record, &example.status);
  const std::string table = MemoryTable(example.status);
  for (const char* row : {"  GPUs of 0    weights  ", "               gradients of other GPUs  ",
                          "               encoded weights  "}) {
    EXPECT_THAT(table, HasSubstr(row));
  }
  EXPECT_THAT(table, ContainsRegex(" sum +8.1 MiB +8.063\n +of 2 nodes +16.1 MiB +16.125\n"));
  const std::string text = JobText(example.status);
  EXPECT_THAT(text, HasSubstr("GPU memory  at most\n"));
  EXPECT_THAT(text, HasSubstr("1.0 MiB     8.1 MiB\n"));
  EXPECT_THAT(text, HasSubstr("2.0 MiB     16.1 MiB\n"));
  const auto json = nlohmann::json::parse(JobJson(example.status));
  EXPECT_EQ(json["nodes"][1]["gpu_memory_bytes"], 1 << 20);
  EXPECT_EQ(json["nodes"][1]["gpu_memory_limit_bytes"], promised);
  EXPECT_EQ(json["nodes"][1]["gpu_memory_parts"].size(), 4u);

  // Not yet promised, or with another placement.
  Example early(proto::Job::PARAMETER_SERVER);
  early.record.mutable_job()->set_device(proto::Job::GPU);
  early.status.mutable_nodes(0)->set_gpu_memory_limit_bytes(5);
  AddMemoryParts(early.record, &early.status);
  EXPECT_TRUE(early.status.nodes(0).gpu_memory_parts().empty());
  EXPECT_TRUE(early.status.nodes(1).gpu_memory_parts().empty());
}

TEST(MemoryParts, OfAJobWithoutChunksAreNotKnown) {
  Example example(proto::Job::PARAMETER_SERVER);
  example.status.set_chunks(0);
  AddMemoryParts(example.record, &example.status);
  EXPECT_THAT(MemoryTable(example.status), IsEmpty());
}

}  // namespace
}  // namespace strata::cli
