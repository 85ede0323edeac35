// Bad input gets one clear line and a non-zero exit status, on the live system.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/control/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

std::string WriteFile(const std::string& name, const std::string& text) {
  std::string path = TestDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// One line "strata: error: ..." on stderr, nothing else there.
void ExpectOneErrorLine(const CommandResult& result, int exit_status) {
  EXPECT_EQ(result.status.code, exit_status) << result.err;
  EXPECT_EQ(result.status.signal, 0);
  EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]+\n"));
}

// ---- the job file ----

TEST(BadJobFile, WithAnUnknownFieldIsRefusedByPlaceAndName) {
  std::string path = WriteFile("job.textproto", "name: \"x\"\nmodle { zoo: \"mlp\" }\n");
  CommandResult result = RunStrata({"submit", path});
  ExpectOneErrorLine(result, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("job.textproto:2"), HasSubstr("modle")));
}

TEST(BadJobFile, WithAWrongTypeIsRefusedByPlaceAndName) {
  std::string path = WriteFile("job.textproto", "name: \"x\"\nranks: \"four\"\n");
  CommandResult result = RunStrata({"validate", path});
  ExpectOneErrorLine(result, 2);
  EXPECT_THAT(result.err, HasSubstr("job.textproto:2"));
}

TEST(BadJobFile, WithAnImpossibleValueIsRefusedByFieldAndValue) {
  std::string path = WriteFile(
      "job.textproto", "name: \"x\" model { zoo: \"mlp\" } data { synthetic {} } window: 1");
  CommandResult result = RunStrata({"local", "--job", path});
  ExpectOneErrorLine(result, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("window"), HasSubstr("1"), HasSubstr("2 to 64")));
}

TEST(BadJobFile, ThatAsksForWhatCannotOutliveADeathIsRefusedByField) {
  const std::string path = WriteFile(
      "job.textproto", "name: \"x\" model { zoo: \"mlp\" } data { synthetic {} } ranks: 4");
  for (const auto& [settings, field] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"replicas=1", "exchange=MPI"}, "replicas: belongs to exchange: PARAMETER_SERVER"},
           {{"replicas=1", "exchange=NONE", "ranks=1"}, "replicas: belongs to exchange"},
           {{"replicas=2"}, "replicas: 2 is not in 0 to 1"},
           {{"replace={per_hour: 4}", "optimizer={lars {}}"}, "replace: optimizer.lars"},
           {{"replace={per_hour: 4}", "optimizer.clip_norm=1"}, "replace: optimizer.clip_norm"},
           {{"replace={per_hour: 4}", "consistency.preset=\"easgd\""},
            "replace: consistency: async"},
           {{"ranks_min=5"}, "ranks_min: 5 is above ranks: 4"},
           {{"ranks_max=3"}, "ranks_max: 3 is below ranks: 4"}}) {
    std::vector<std::string> args = {"validate", path};
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    const CommandResult result = RunStrata(args);
    ExpectOneErrorLine(result, 2);
    EXPECT_THAT(result.err, HasSubstr(field));
  }
}

TEST(BadJobFile, ThatIsMissingIsNamed) {
  CommandResult result = RunStrata({"submit", "/nonexistent.textproto"});
  ExpectOneErrorLine(result, 2);
  EXPECT_THAT(result.err, HasSubstr("/nonexistent.textproto"));
}

TEST(BadJobFile, SettingOfAnUnknownPathIsNamed) {
  std::string path =
      WriteFile("job.textproto", "name: \"x\" model { zoo: \"mlp\" } data { synthetic {} }");
  CommandResult result = RunStrata({"validate", path, "--set", "schedule.base_rate=1"});
  ExpectOneErrorLine(result, 2);
  EXPECT_THAT(result.err, HasSubstr("schedule.base_rate"));
}

TEST(BadHostsFile, ThatIsMissingOrADirectoryIsNamed) {
  for (const std::string& path : {TestDir(), std::string("/nonexistent.hosts")}) {
    CommandResult result = RunStrata({"launch", "--hosts", path});
    ExpectOneErrorLine(result, 2);
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("hosts file ", path)));
  }
}

TEST(BadJobFile, ThatIsADirectoryOrEmptyIsSaidToBeOne) {
  CommandResult directory = RunStrata({"submit", TestDir()});
  ExpectOneErrorLine(directory, 2);
  EXPECT_THAT(directory.err, HasSubstr(TestDir() + ": is a directory, not a job file"));
  std::string path = WriteFile("empty.textproto", "\n");
  CommandResult empty = RunStrata({"validate", path});
  ExpectOneErrorLine(empty, 2);
  EXPECT_THAT(empty.err, HasSubstr(path + ": is empty, no job in it"));
}

TEST(BadJobFile, ThatNeedsAServerIsRefusedByALocalClusterWithout) {
  std::string path = WriteJob(TestDir(), LenetJob("no-server", 2, 0, 5));
  CommandResult result = RunStrata({"local", "--servers", "0", "--job", path});
  ExpectOneErrorLine(result, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--servers 0"), HasSubstr("PARAMETER_SERVER")));
}

TEST(BadUsage, NamesTheUnknownCommandOrPointsToTheCommandsHelp) {
  EXPECT_EQ(RunStrata({"submti"}).err,
            "strata: error: unknown command submti, did you mean submit? (see strata --help)\n");
  EXPECT_EQ(RunStrata({"frobnicate"}).err,
            "strata: error: unknown command frobnicate (see strata --help)\n");
  EXPECT_THAT(RunStrata({"submit", "job", "--folow"}).err,
              HasSubstr("--folow, did you mean --follow? (see strata submit --help)\n"));
  EXPECT_THAT(RunStrata({"checkpoint", "list", "job", "--jsn"}).err,
              HasSubstr("--jsn, did you mean --json?"));
  EXPECT_THAT(RunStrata({"run", "--nods", "2", "train.py"}).err,
              HasSubstr("unknown option --nods, did you mean --nodes?"));
  EXPECT_THAT(RunStrata({"compare", "train.py", "--layers", "4"}).err,
              HasSubstr("--layers; a program's own arguments stand behind -- (see strata compare "
                        "--help)\n"));
  EXPECT_THAT(RunStrata({"submit"}).err, HasSubstr("(see strata submit --help)\n"));
}

TEST(BadUsage, AnAddressThatIsNoneIsRefusedAtOnce) {
  for (const char* address : {"localhost", ":7070", ":abc", "localhost:99999", "localhost:", ""}) {
    for (const char* command : {"jobs", "status", "nodes", "worker", "server"}) {
      CommandResult result = RunStrata({command, "--coordinator", address});
      ExpectOneErrorLine(result, 2);
      EXPECT_THAT(result.err, HasSubstr("expected HOST:PORT")) << command << " " << address;
    }
  }
}

TEST(BadUsage, AnEmptyAddressAmongSeveralIsNamedWithThem) {
  for (const char* addresses : {"a:7070,,b:7070", "a:7070,", ",a:7070"}) {
    for (const std::vector<std::string>& args : {std::vector<std::string>{"jobs", "--coordinator"},
                                                 {"worker", "--coordinator"},
                                                 {"coordinator", "--etcd"}}) {
      const CommandResult result = RunStrata({args[0], args[1], addresses});
      ExpectOneErrorLine(result, 2);
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat("\"", addresses, "\": one of its addresses")));
    }
  }
}

TEST(BadUsage, IsOneLine) {
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"frobnicate"}, {"submit"}, {"worker", "--slots", "many"}, {"local", "--nodes", "0"}}) {
    ExpectOneErrorLine(RunStrata(args), 2);
  }
}

// ---- data ----

// A copy of the data set that the test may damage.
std::string CopyOfData(const std::string& name) {
  std::string dir = TestDir() + "/" + name;
  fs::create_directories(dir);
  for (const auto& entry : fs::directory_iterator(kFashionMnist)) {
    fs::copy_file(entry.path(), dir + "/" + entry.path().filename().string(),
                  fs::copy_options::overwrite_existing);
  }
  return dir;
}

class BadData : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster_.Start(), absl::OkStatus()); }

  void ExpectFailure(const std::string& dir, const std::string& file, const std::string& what) {
    proto::Job job = JobFromText("name: 'bad-data' model { zoo: 'lenet5' } data { idx { dir: '" +
                                 dir + "' } } ranks: 2 max_steps: 5");
    auto id = cluster_.Submit(job);
    ASSERT_TRUE(id.ok()) << id.status();
    proto::JobStatus status = cluster_.WaitForEnd(*id);
    EXPECT_EQ(status.state(), proto::FAILED);
    EXPECT_THAT(status.reason(), AllOf(MatchesRegex("rank [01] \\(node 0, w0\\): [^\n]+"),
                                       HasSubstr(file), HasSubstr(what)));
  }

  Cluster cluster_{{1, 1, 1, 2}};
};

TEST_F(BadData, MissingTruncatedOrCorruptIsNamedAndTheNextJobRuns) {
  ExpectFailure("/nonexistent", "/nonexistent/", "");
  std::string truncated = CopyOfData("truncated");
  fs::resize_file(truncated + "/train-images-idx3-ubyte.gz", 1'000'000);
  ExpectFailure(truncated, "train-images-idx3-ubyte.gz", "");
  std::string corrupt = CopyOfData("corrupt");
  std::fstream file(corrupt + "/train-labels-idx1-ubyte.gz",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(10'000);
  file.write("corrupt!", 8);
  file.close();
  ExpectFailure(corrupt, "train-labels-idx1-ubyte.gz", "");
  cluster_.RunToEnd(LenetJob("next", 2, 2, 5));
}

// ---- the cluster ----

TEST(BadPlace, MoreRanksThanTheClusterCanEverHoldFail) {
  Cluster cluster({1, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  std::string path = WriteJob(TestDir(), LenetJob("too-many", 5, 0, 5));
  CommandResult result =
      RunStrata({"submit", path, "--follow", "--coordinator", cluster.address()});
  ExpectOneErrorLine(result, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("5"), HasSubstr("4"), HasSubstr("slots")));
}

TEST(BadPlace, RanksThatDoNotFitYetWaitAndSaySo) {
  Cluster cluster({1, 1, 1, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto first = cluster.Submit(LenetJob("first", 2, 0, 10'000'000));
  ASSERT_TRUE(first.ok()) << first.status();
  cluster.WaitForStep(*first, 1);
  auto second = cluster.Submit(LenetJob("second", 2, 0, 5));
  ASSERT_TRUE(second.ok()) << second.status();
  proto::JobStatus waiting = cluster.WaitFor(
      *second, [](const proto::JobStatus& status) { return !status.reason().empty(); });
  EXPECT_EQ(waiting.state(), proto::QUEUED);
  EXPECT_THAT(waiting.reason(), AllOf(HasSubstr("2"), HasSubstr("slots")));
  ASSERT_EQ(cluster.client().Cancel(*first), absl::OkStatus());
  proto::JobStatus done = cluster.WaitForEnd(*second);
  EXPECT_EQ(done.state(), proto::FINISHED) << done.reason();
}

TEST(BadPlace, APortInUseIsNamed) {
  Cluster cluster({0, 1, 0, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  CommandResult result = RunStrata({"coordinator", "--listen", cluster.address(), "--insecure",
                                    "--state", TestDir() + "/other-state"});
  ExpectOneErrorLine(result, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(cluster.address()), HasSubstr("in use")));
}

TEST(BadPlace, AServersPortInUseIsNamed) {
  Cluster cluster({1, 1, 0, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  std::string port = ValueIn(cluster.server(0).ready_line, "ports");
  std::vector<std::string> args = cluster.KeyArgs(keys::Role::kServer, "s9");
  args.insert(args.begin(), {"server", "--coordinator", cluster.address(), "--port", port});
  CommandResult result = RunStrata(args);
  ExpectOneErrorLine(result, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(":" + port), HasSubstr("in use")));
}

TEST(BadPlace, ACoordinatorThatCannotBeReachedIsNamed) {
  // Port 1 of loopback: nothing listens there.
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"jobs"}, {"status"}, {"nodes"}, {"cancel", "1"}, {"worker"}, {"server"}}) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--coordinator", "127.0.0.1:1", "--insecure", "--timeout", "1",
                           "--log-level", "off"});
    CommandResult result = RunStrata(all);
    ExpectOneErrorLine(result, 1);
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1")) << args[0];
    EXPECT_THAT(result.err, testing::ContainsRegex("[Cc]onnection refused")) << args[0];
  }
}

TEST(BadPlace, AnEtcdThatIsNotThereIsNamed) {
  const CommandResult result =
      RunStrata({"coordinator", "--listen", "127.0.0.1:0", "--insecure", "--etcd", "127.0.0.1:1",
                 "--state", TestDir() + "/state", "--log-level", "off"});
  ExpectOneErrorLine(result, 1);
  EXPECT_THAT(result.err, HasSubstr("etcd at 127.0.0.1:1 does not answer: 127.0.0.1:1: connection "
                                    "refused"));
}

TEST(BadPlace, WhatCannotBeDrainedIsRefusedByName) {
  Cluster cluster({.slots = 2, .insecure = true});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto run = [&](std::vector<std::string> args) {
    return RunStrata(cluster.Asking(std::move(args)));
  };
  const auto expect_refused = [&](const std::vector<std::string>& args, int exit_status,
                                  const std::string& why) {
    const CommandResult result = run(args);
    ExpectOneErrorLine(result, exit_status);
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  expect_refused({"drain", "s9"}, 2, "no server or worker is called \"s9\"");
  expect_refused({"undrain", "s9"}, 2, "no server or worker is called \"s9\"");
  expect_refused({"drain", "s0", "--undo"}, 1, "server s0 is not being drained");
  expect_refused({"undrain", "s0"}, 1, "server s0 is not being drained");
  expect_refused({"drain", "s0", "--undo", "--deadline", "1s"}, 2, "--deadline excludes --undo");
  const auto job = cluster.Submit(LenetJob("job", 2, 0, 10'000'000));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(cluster.WaitForStep(*job, 1).state(), proto::RUNNING);
  expect_refused({"drain", "s0"}, 1, "server s0 cannot be drained: no other server is there");
  expect_refused({"drain", "s0", "--deadline", "soon"}, 2, "--deadline soon: is no time such as");
  const std::string late = "w0 is not empty after 500ms, and is still being drained";
  expect_refused({"drain", "w0", "--wait", "--deadline", "500ms"}, 1, late);
  expect_refused({"drain", "w0", "--deadline", "500ms"}, 1, late);
  EXPECT_EQ(run({"undrain", "w0"}).out, "w0 is back in service\n");
  ASSERT_EQ(cluster.client().Cancel(*job), absl::OkStatus());
  cluster.WaitForEnd(*job);
  for (int times = 0; times < 2; ++times) {
    EXPECT_THAT(run({"drain", "s0"}).out, HasSubstr("s0 is drained: nothing is left there\n"));
  }
  EXPECT_THAT(run({"drain", "s0", "--deadline", "1m"}).out, HasSubstr("s0: 0 of 0 shards moved\n"));
  EXPECT_EQ(run({"drain", "s0", "--undo"}).out, "s0 is back in service\n");
}

TEST(BadPlace, ADaemonOfAnotherVersionIsRefusedAndToldWhy) {
  Cluster cluster({0, 1, 0, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  control::Session::Options options;
  options.coordinator = cluster.address();
  options.credentials =
      control::Credentials::File(cluster.KeyArgs(keys::Role::kWorker, "from-the-future")[1]);
  options.registration.set_protocol_version(999);
  options.registration.set_role(proto::WORKER);
  options.registration.set_name("from-the-future");
  options.registration.set_address("127.0.0.1");
  options.registration.set_slots(1);
  control::Session::Callbacks callbacks;
  callbacks.on_message = [](const proto::CoordinatorMessage&) {};
  callbacks.heartbeat = [] { return proto::Heartbeat(); };
  callbacks.running_jobs = [] { return std::vector<uint32_t>(); };
  callbacks.on_lost = [](const absl::Status&) {};
  auto session = control::Session::Create(options, callbacks);
  absl::Status status = session->Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("999"), HasSubstr("version")));
  session->Stop();
}

TEST(BadPlace, ADaemonWhoseNameIsTakenIsRefusedAndToldWhy) {
  Cluster cluster({0, 1, 1, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  std::vector<std::string> args = cluster.KeyArgs(keys::Role::kWorker, "w0");
  args.insert(args.begin(),
              {"worker", "--coordinator", cluster.address(), "--name", "w0", "--log-level", "off"});
  CommandResult result = RunStrata(args);
  ExpectOneErrorLine(result, 1);
  EXPECT_THAT(result.err, HasSubstr("w0"));
}

// ---- the run ----

TEST(BadRun, ALossThatIsNaNNamesRankAndStep) {
  Cluster cluster({1, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("nan", 4, 2, 1000);
  job.mutable_debug()->set_nan_rank(3);
  job.mutable_debug()->set_nan_step(12);
  std::string path = WriteJob(TestDir(), job);
  CommandResult result =
      RunStrata({"submit", path, "--follow", "--coordinator", cluster.address()});
  ExpectOneErrorLine(result, 1);
  EXPECT_THAT(result.err, HasSubstr("rank 3 (node 1, w1): loss is NaN at step 12"));
  cluster.RunToEnd(LenetJob("next", 4, 2, 5));
}

TEST(BadRun, ARunDirectoryThatCannotBeWrittenIsNamed) {
  Cluster cluster({1, 1, 1, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  // Permissions do not stop root; a file in the way does.
  const std::string file = cluster.runs_dir() + "/a-file";
  std::filesystem::create_directories(cluster.runs_dir());
  std::ofstream(file) << "";
  proto::Job job = LenetJob("unwritable", 2, 2, 5);
  job.set_run_dir(file + "/run");
  auto id = cluster.Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();
  proto::JobStatus status = cluster.WaitForEnd(*id);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_EQ(status.reason(), absl::StrCat("node 0 (w0): cannot write to run directory ", file,
                                          "/run: ", file, ": Not a directory"));
  // A job may not write or remove files elsewhere.
  job.set_run_dir(TestDir() + "/elsewhere");
  id = cluster.Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(cluster.WaitForEnd(*id).reason(),
            absl::StrCat("node 0 (w0): run_dir: ", TestDir(), "/elsewhere: not below ",
                         cluster.runs_dir(), ", where this worker puts outputs (--runs); name a ",
                         "folder in it, such as run_dir: \"mine\""));
  EXPECT_FALSE(std::filesystem::exists(TestDir() + "/elsewhere"));
  cluster.RunToEnd(LenetJob("next", 2, 2, 5));
}

TEST(BadRun, AProgramThatDoesNotExistIsNamed) {
  Cluster cluster({1, 1, 1, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(JobFromText("name: 'p' program { path: '/nonexistent/program' }"));
  ASSERT_TRUE(id.ok()) << id.status();
  proto::JobStatus status = cluster.WaitForEnd(*id);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("/nonexistent/program: No such file"));
}

}  // namespace
}  // namespace strata::tests
