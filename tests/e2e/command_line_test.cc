// The command line as people and scripts use it.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string JobFile(const proto::Job& job) { return WriteJob(TestDir(), job); }

TEST(CommandLine, ADaemonWritesAllOfItsLogAsJsonWhereItIsToldSo) {
  for (const char* daemon : {"worker", "server"}) {
    // Port 1 of loopback: nothing listens there.
    const CommandResult result =
        RunStrata({daemon, "--coordinator", "127.0.0.1:1", "--insecure", "--timeout", "1", "--name",
                   "d1", "--log-level", "debug", "--log-format", "json"});
    EXPECT_EQ(result.status.code, 1);
    json last;
    for (const absl::string_view line : absl::StrSplit(result.err, '\n', absl::SkipEmpty())) {
      last = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
      ASSERT_TRUE(last.is_object()) << line;
      EXPECT_EQ(last.value("source", ""), absl::StrCat(daemon, " d1")) << line;
    }
    EXPECT_EQ(last.value("level", ""), "error") << result.err;
    EXPECT_THAT(last.value("message", ""), HasSubstr("127.0.0.1:1")) << result.err;
  }
  for (const char* daemon : {"worker", "web"}) {
    const CommandResult wrong = RunStrata({daemon, "--log-format", "xml"});
    EXPECT_EQ(wrong.status.code, 2);
    EXPECT_THAT(wrong.err, HasSubstr("xml not in {text,json}"));
  }
}

TEST(CommandLine, ThePageWritesItsLogAsJsonWhereItIsToldSo) {
  const CommandResult result = RunStrata({"web", "--listen", "0.0.0.0:0", "--no-login",
                                          "--log-level", "debug", "--log-format", "json"});
  EXPECT_EQ(result.status.code, 2);
  const json line = json::parse(result.err, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(line.is_object()) << result.err;
  EXPECT_EQ(line.value("source", ""), "web");
  EXPECT_EQ(line.value("level", ""), "error");
  EXPECT_THAT(line.value("message", ""), HasSubstr("--no-login with --listen 0.0.0.0:0"));
}

TEST(CommandLine, EverySubcommandHasHelpWithExamples) {
  for (const char* command :
       {"coordinator", "server", "worker", "local", "launch", "submit", "compare", "jobs", "status",
        "cancel", "nodes", "devices", "validate"}) {
    CommandResult result = RunStrata({command, "--help"});
    EXPECT_EQ(result.status.code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  strata ")) << command;
    EXPECT_THAT(result.out, HasSubstr("--log-level")) << command;
  }
  CommandResult help = RunStrata({"--help"});
  EXPECT_EQ(RunStrata({"help"}).out, help.out);
  EXPECT_EQ(RunStrata({"help", "submit"}).out, RunStrata({"submit", "--help"}).out);
  EXPECT_EQ(help.status.code, 0);
  EXPECT_THAT(help.out, testing::Not(HasSubstr("\n  aggregator ")))
      << "an internal command is shown";
  EXPECT_THAT(RunStrata({"--version"}).out, HasSubstr("strata "));
}

TEST(CommandLine, HelpFitsAScreenAndHelpAllHasTheRest) {
  for (const char* command : {"compare", "sweep"}) {
    const CommandResult help = RunStrata({command, "--help"});
    const std::vector<std::string> lines = absl::StrSplit(help.out, '\n');
    EXPECT_LE(lines.size(), 60u) << help.out;
    for (const std::string& line : lines) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_THAT(help.out, testing::Not(HasSubstr(" in [")));
    EXPECT_THAT(help.out, testing::Not(HasSubstr("Excludes:")));
    EXPECT_THAT(help.out,
                testing::AnyOf(HasSubstr("--help-all has more: --at-once, --device-plugin"),
                               HasSubstr("--help-all has more: --device-plugin")));
    const CommandResult all = RunStrata({command, "--help-all"});
    EXPECT_EQ(all.status.code, 0);
    EXPECT_THAT(all.out, HasSubstr("--slots INT:INT in [1 - 1024] Excludes: --coordinator"));
  }
}

TEST(CommandLine, NodesThatStayEmptyAreSaid) {
  proto::Job job = LenetJob("empty", 2, 0, 4);
  const CommandResult result =
      RunStrata({"local", "--nodes", "3", "--runs", TestDir() + "/runs", "--job", JobFile(job)});
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("ranks: 2, 1 on a node, take 2 of the 3 nodes; the other stays empty\n"));
}

TEST(CommandLine, ARingOnOneNodeIsToldOfTheOption) {
  const CommandResult result = RunStrata({"local", "--runs", TestDir() + "/runs", "--mode", "ring",
                                          "--job", JobFile(LenetJob("alone", 2, 0, 4))});
  EXPECT_EQ(result.status.code, 2);
  EXPECT_EQ(result.err,
            "strata: error: --nodes 1: exchange: RING needs two nodes (--nodes 2 or more)\n");
}

TEST(CommandLine, EveryExampleIsAValidJob) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("examples")) {
    if (entry.path().extension() != ".textproto") continue;
    CommandResult result = RunStrata({"validate", entry.path().string()});
    EXPECT_EQ(result.status.code, 0) << entry.path() << ": " << result.err;
    // The output is a job with all defaults; parsing it again changes nothing.
    auto job = ParseJob(result.out, "printed");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(entry.path().stem().string(), HasSubstr(job->model().zoo().substr(0, 3)));
    ++count;
  }
  EXPECT_EQ(count, 11);
}

TEST(CommandLine, ValidateShowsDefaultsThatAreZeroAsTextAndAsJson) {
  const std::string example = "examples/fashion_mlp_async.textproto";
  EXPECT_THAT(RunStrata({"validate", example}).out, HasSubstr("ranks_per_node: 0\n"));
  const json printed = json::parse(RunStrata({"validate", example, "--json"}).out);
  EXPECT_EQ(printed.at("name"), "fashion-mlp-async");
  EXPECT_EQ(printed.at("window"), 4);
  EXPECT_EQ(printed.at("chunk_elements"), 0);
}

TEST(CommandLine, LocalRunsAJobAndShowsHowItWent) {
  std::string runs = TestDir() + "/runs";
  proto::Job job = LenetJob("quick", 4, 0, 40);
  CommandResult result =
      RunStrata({"local", "--servers", "2", "--nodes", "2", "--slots", "2", "--runs", runs, "--job",
                 JobFile(job), "--mode", "lazy", "--set", "consistency.lazy.staleness=1"});
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("strata local ready coordinator=unix:/"));
  EXPECT_THAT(result.out, HasSubstr("running lenet5, mode lazy(1), 4 ranks on w0, w1\n"));
  EXPECT_THAT(result.out, HasSubstr("step 40/40"));
  EXPECT_THAT(result.out, HasSubstr("finished after "));
  EXPECT_THAT(result.out, HasSubstr("model: " + runs + "/quick-1/model.safetensors\n"));
  EXPECT_EQ(result.err, "");
  for (const char* file :
       {"metrics.jsonl", "job.textproto", "model.safetensors", "logs/rank0.log", "logs/rank3.log",
        "logs/aggregator-node0.log", "logs/aggregator-node1.log"}) {
    EXPECT_TRUE(std::filesystem::exists(runs + "/quick-1/" + file)) << file;
  }
  // fp32 weights after a header of JSON.
  EXPECT_GT(std::filesystem::file_size(runs + "/quick-1/model.safetensors"), 61'706u * 4);
  EXPECT_GE(FinalAccuracy(Metrics(runs + "/quick-1")), 0.0);
}

TEST(CommandLine, LocalFailsAsItsJobDoes) {
  proto::Job job = LenetJob("nan", 1, 0, 40);
  job.mutable_debug()->set_nan_rank(0);
  job.mutable_debug()->set_nan_step(3);
  CommandResult result = RunStrata({"local", "--runs", TestDir() + "/runs", "--job", JobFile(job)});
  EXPECT_EQ(result.status.code, 1);
  EXPECT_THAT(result.err, testing::MatchesRegex("strata: error: job 1 \\(nan\\): failed after "
                                                "[0-9:]+: rank 0 \\(node 0, w0\\): loss is NaN "
                                                "at step 3\n"));
}

TEST(CommandLine, ShowsJobsStatusAndNodesForPeopleAndForScripts) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  std::vector<std::string> at = {"--coordinator", cluster.address()};
  auto run = [&at](std::vector<std::string> args) {
    args.insert(args.end(), at.begin(), at.end());
    CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.code, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(run({"jobs"}), "no jobs\n");
  proto::Job job = LenetJob("shown", 4, 2, 40);
  std::string followed = run({"submit", JobFile(job), "--follow"});
  EXPECT_THAT(followed, HasSubstr("job 1 (shown) submitted\n"));
  EXPECT_THAT(followed, HasSubstr("finished after "));

  EXPECT_THAT(run({"jobs"}), HasSubstr("1    shown  tester  finished  sync"));
  EXPECT_EQ(json::parse(run({"jobs", "--json"}))[0]["state"], "finished");
  json status = json::parse(run({"status", "shown", "--json"}));
  EXPECT_EQ(status["job_id"], 1);
  EXPECT_EQ(status["elements"], 61'706);
  EXPECT_EQ(status["chunks"], 61);
  EXPECT_EQ(status["progress"]["step"], 40);
  ASSERT_EQ(status["shards"].size(), 4u);
  EXPECT_EQ(status["shards"][0]["refused"], 0);
  EXPECT_THAT(run({"status", "1"}), HasSubstr("job 1 (shown): finished\n"));
  EXPECT_THAT(run({"status"}),
              HasSubstr("2 servers with 4 shards, 2 workers with 4 slots (0 used)"));
  EXPECT_EQ(json::parse(run({"nodes", "--json"}))["daemons"].size(), 4u);
  EXPECT_THAT(run({"nodes"}), HasSubstr("w1    worker  alive"));

  for (std::vector<std::string> args :
       {std::vector<std::string>{"status", "99"}, {"status", "99", "--follow"}}) {
    args.insert(args.end(), at.begin(), at.end());
    const CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.code, 2) << args[2];
    EXPECT_EQ(result.err, "strata: error: no job 99\n");
  }
}

TEST(CommandLine, AProgramOfTheUsersTrainsThroughTheCluster) {
  proto::Job job = JobFromText(R"(
      name: "linear" program { path: "to be set" } ranks: 4 ranks_per_node: 2
      optimizer { sgd {} } schedule { base_lr: 0.1 } metrics { every_steps: 50 })");
  job.mutable_program()->set_path(std::filesystem::absolute("examples/linear/linear").string());
  std::string runs = TestDir() + "/runs";
  CommandResult result =
      RunStrata({"local", "--servers", "2", "--nodes", "2", "--runs", runs, "--job", JobFile(job)});
  EXPECT_EQ(result.status.code, 0) << result.err;
  std::ifstream log(runs + "/linear-1/logs/rank0.log");
  std::stringstream text;
  text << log.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("b = 5.0"));
  EXPECT_FALSE(Metrics(runs + "/linear-1").empty());
}

TEST(CommandLine, AFollowerThatIsInterruptedLeavesTheJobAndSaysHowToGoOn) {
  Cluster cluster({1, 1, 1, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("long", 2, 2, 10'000'000));
  ASSERT_TRUE(id.ok()) << id.status();
  cluster.WaitForStep(*id, 1);
  Command follower =
      StartStrata({"status", "long", "--follow", "--coordinator", cluster.address()});
  auto shown = [&] { return std::filesystem::file_size(follower.base + ".out") > 0; };
  ASSERT_TRUE(WaitUntil(shown));
  follower.process->Signal(SIGINT);
  CommandResult result = Finish(std::move(follower));
  EXPECT_EQ(result.status.code, 130) << result.status.ToString();
  EXPECT_THAT(result.out, HasSubstr("\njob 1 goes on; look: strata status 1 --coordinator "));
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(cluster.Status(*id).state(), proto::RUNNING);
}

TEST(CommandLine, FollowingWithJsonWritesAnObjectPerLine) {
  Cluster cluster({1, 1, 1, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  CommandResult result = RunStrata({"submit", JobFile(LenetJob("lines", 2, 2, 40)), "--follow",
                                    "--json", "--coordinator", cluster.address()});
  EXPECT_EQ(result.status.code, 0) << result.err;
  std::stringstream lines(result.out);
  std::string line;
  json last_status;
  int metrics = 0;
  for (int i = 0; std::getline(lines, line); ++i) {
    json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_EQ(object.contains("job_id"), i == 0) << line;
    if (object.contains("status")) last_status = object["status"];
    metrics += object.contains("metrics") ? 1 : 0;
  }
  EXPECT_EQ(last_status["state"], "finished");
  EXPECT_GT(metrics, 0);
}

// Returns the step of the newest checkpoint that is complete in a folder; 0: there is none.
uint64_t NewestIn(const std::string& dir) {
  uint64_t newest = 0;
  std::error_code not_there;
  for (const auto& folder : std::filesystem::directory_iterator(dir, not_there)) {
    const std::string name = folder.path().filename();
    uint64_t clock = 0;
    const bool is_complete = std::filesystem::exists(folder.path() / "manifest.json");
    if (!is_complete || !absl::SimpleAtoi(name.substr(name.find('-') + 1), &clock)) continue;
    newest = std::max(newest, clock);
  }
  return newest;
}

TEST(CommandLine, LocalThatIsInterruptedSaysSoOnceAndWhichCheckpointIsTheNewest) {
  proto::Job job = LenetJob("long", 1, 0, 10'000'000);
  const std::string dir = TestDir() + "/c";
  job.mutable_checkpoint()->set_dir(dir);
  job.mutable_checkpoint()->set_every_steps(5);
  Command local = StartStrata({"local", "--runs", TestDir() + "/runs", "--job", JobFile(job)});
  ASSERT_TRUE(WaitUntil([&] { return NewestIn(dir) > 0; }));
  local.process->Signal(SIGINT);
  CommandResult result = Finish(std::move(local));
  EXPECT_EQ(result.status.code, 1);
  EXPECT_EQ(result.err, "strata: error: stopped before the job had ended\n");
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("newest checkpoint: step ", NewestIn(dir), " in ",
                                                 dir, "; the same command with --resume ")));
}

TEST(CommandLine, CancelEndsAJobAndItsFollowerWithStatus1) {
  Cluster cluster({1, 1, 1, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("long", 2, 2, 10'000'000));
  ASSERT_TRUE(id.ok()) << id.status();
  cluster.WaitForStep(*id, 1);
  CommandResult result = RunStrata({"cancel", "long", "--coordinator", cluster.address()});
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_EQ(cluster.WaitForEnd(*id).state(), proto::CANCELLED);
  CommandResult again = RunStrata({"cancel", "1", "--coordinator", cluster.address()});
  EXPECT_EQ(again.status.code, 1);
  EXPECT_EQ(again.err, "strata: error: job 1 (long) was already cancelled\n");
  CommandResult unknown = RunStrata({"cancel", "99", "--coordinator", cluster.address()});
  EXPECT_EQ(unknown.status.code, 2);
  EXPECT_THAT(unknown.err, testing::MatchesRegex("strata: error: [^\n]*99[^\n]*\n"));
}

}  // namespace
}  // namespace strata::tests
