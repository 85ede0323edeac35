// `strata logs` on a cluster of two hosts: the lines of each process, live lines, and the cost of a
// log that nobody reads.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/control/logs_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Number of the lines below that rank 1 writes.
constexpr int kManyLines = 8'000'000;
// Additional memory allowed to a daemon while such a log passes through it: half the log's size.
constexpr uint64_t kMoreBytes = 32 << 20;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A user's program: each of four ranks on two nodes prints its identity, and trains once the file
// DIR/go exists.
proto::Job Talking(const std::string& name, const std::string& says) {
  const std::string script = absl::StrCat(TestDir(), "/", name, ".sh");
  std::ofstream(script) << "#!/bin/sh\necho \"rank $RANK begins\"\n"
                        << says << "\nuntil [ -e " << TestDir() << "/" << name
                        << ".go ]; do sleep 0.05; done\nexec "
                        << fs::absolute("examples/linear/linear").string() << " \"$@\"\n";
  fs::permissions(script, fs::perms::owner_all);
  proto::Job job = JobFromText("program { env: 'RANK={rank}' } ranks: 4 ranks_per_node: 2");
  job.set_name(name);
  job.mutable_program()->set_path(script);
  return job;
}

void LetTrain(const std::string& name) { std::ofstream(TestDir() + "/" + name + ".go"); }

class LogsCommand : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster_.Start(), absl::OkStatus()); }

  CommandResult Logs(std::vector<std::string> words) {
    words.insert(words.begin(), "logs");
    return RunStrata(cluster_.Asking(words));
  }
  // Once rank 3 has printed that.
  bool WaitForLine(const std::string& job, const std::string& line) {
    return WaitUntil([&] {
      const std::string out = Logs({job, "--rank", "3"}).out;
      return absl::StrContains(absl::StrCat("\n", out), absl::StrCat("\n", line, "\n"));
    });
  }
  // Memory of the daemons through which a log passes: the coordinator and both workers.
  std::map<std::string, uint64_t> DaemonBytes() {
    std::map<std::string, uint64_t> bytes;
    for (const auto& [name, daemon] :
         {std::pair("coordinator", &cluster_.coordinator()), std::pair("w0", &cluster_.worker(0)),
          std::pair("w1", &cluster_.worker(1))}) {
      const std::string statm = ReadFile(absl::StrCat("/proc/", daemon->process->pid(), "/statm"));
      uint64_t pages = 0;
      EXPECT_TRUE(
          absl::SimpleAtoi(std::vector<std::string>(absl::StrSplit(statm, ' ')).at(1), &pages));
      bytes[name] = pages * 4096;
    }
    return bytes;
  }
  void ExpectLittleMoreThan(const std::map<std::string, uint64_t>& before) {
    for (const auto& [name, bytes] : DaemonBytes()) {
      EXPECT_LT(bytes, before.at(name) + kMoreBytes) << name;
    }
  }

  void ExpectLines() {
    const CommandResult all = Logs({"talks"});
    EXPECT_EQ(all.status.code, 0) << all.err;
    EXPECT_EQ(all.err, "");
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_THAT(all.out, HasSubstr(absl::StrCat("[", rank, "] rank ", rank, " begins\n[", rank,
                                                  "] loss 1\n[", rank, "] loss 2\n")));
    }
    EXPECT_EQ(Logs({"1", "--rank", "3"}).out, "rank 3 begins\nloss 1\nloss 2\nbell\a\nsaid\n");
    EXPECT_EQ(Logs({"talks", "--rank", "3", "--tail", "1"}).out, "said\n");
    EXPECT_EQ(Logs({"talks", "--rank", "3", "--grep", "^loss [2-9]"}).out, "loss 2\n");
    const CommandResult none = Logs({"talks", "--grep", "nobody says this"});
    EXPECT_EQ(none.status.code, 0);
    EXPECT_EQ(none.out, "");
    EXPECT_EQ(none.err, "strata: no line among the last 100 of each matches --grep\n");
    const CommandResult second = Logs({"talks", "--node", "1", "--tail", "2"});
    EXPECT_THAT(second.out, AllOf(HasSubstr("[2] bell\a\n[2] said\n"), HasSubstr("[3] said\n"),
                                  Not(HasSubstr("[1]")), Not(HasSubstr("loss"))));
    const auto line =
        nlohmann::json::parse(Logs({"talks", "--rank", "2", "--tail", "1", "--json"}).out);
    EXPECT_EQ(line, nlohmann::json({{"rank", 2}, {"line", "said"}}));
  }
  void ExpectToBeFollowed(JobId id) {
    // Follows to the job's end.
    Command follow = StartStrata(cluster_.Asking({"logs", "talks", "-f", "--tail", "1"}));
    ASSERT_TRUE(
        WaitUntil([&] { return absl::StrContains(ReadFile(follow.base + ".out"), "[3] said"); }));
    LetTrain("talks");
    const CommandResult followed = Finish(std::move(follow));
    EXPECT_EQ(followed.status.code, 0) << followed.err;
    EXPECT_EQ(cluster_.WaitForEnd(id).state(), proto::FINISHED);
    EXPECT_THAT(followed.out, Not(HasSubstr("loss 1")));
    EXPECT_GT(followed.out.size(), std::string("[3] said\n").size() * 4)
        << "of the training nothing";
    EXPECT_EQ(Logs({"talks", "--rank", "3", "--tail", "all"}).out,
              ReadFile(cluster_.Status(id).run_dir() + "/logs/rank3.log"));
    EXPECT_THAT(Logs({"talks", "--aggregator"}).out,
                AllOf(HasSubstr("[aggregator 0] "), HasSubstr("[aggregator 1] ")));
  }
  void ExpectRefusals() {
    // Requests for ranks and files that do not exist.
    const auto refused = [&](const std::vector<std::string>& words, int code,
                             const std::string& why) {
      const CommandResult result = Logs(words);
      EXPECT_EQ(result.status.code, code) << why;
      EXPECT_EQ(result.out, "") << why;
      EXPECT_THAT(result.err, HasSubstr(why));
    };
    refused({"nobody"}, 2, "strata: error: no job nobody");
    refused({"talks", "--rank", "4"}, 2, "strata: error: job 1 has no rank 4");
    refused({"talks", "--node", "2"}, 2, "strata: error: job 1 has no node 2");
    refused({"talks", "--grep", "("}, 2, "strata: error: --grep (: missing ): (");
    refused({"talks", "--tail", "few"}, 2, "--tail few: neither a number of lines nor \"all\"");
    refused({"talks", "--aggregator", "--rank", "1"}, 2, "ask for one of the two");
  }
  void ExpectAHostThatIsGoneToBeNamed() {
    // A host that is gone is named, and the others' logs are shown; when it returns, so do its
    // logs.
    ASSERT_EQ(kill(cluster_.worker(1).process->pid(), SIGKILL), 0);
    CommandResult half;
    ASSERT_TRUE(WaitUntil([&] {
      half = Logs({"talks", "--tail", "all", "--grep", "begins"});
      return half.status.code == 1;
    }));
    EXPECT_EQ(half.out, "[0] rank 0 begins\n[1] rank 1 begins\n");
    EXPECT_THAT(half.err, AllOf(HasSubstr("strata: error: rank 2's log is on worker w1 ("),
                                HasSubstr("strata: error: rank 3's log is on worker w1 (")));
    ASSERT_EQ(cluster_.StartWorker(1), absl::OkStatus());
    EXPECT_TRUE(WaitForLine("talks", "said"));
  }

  Cluster cluster_{{.nodes = 2, .slots = 2}};
};

TEST_F(LogsCommand, ShowsTheLinesThatAreAskedFor) {
  const auto id =
      cluster_.Submit(Talking("talks", "echo loss 1; echo loss 2; printf 'bell\\a\\n'; echo said"));
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(WaitForLine("talks", "said"));
  for (const char* rank : {"0", "1", "2"}) {
    ASSERT_TRUE(WaitUntil([&] {
      return !Logs({"talks", "--rank", rank, "--grep", "said"}).out.empty();
    }));
  }

  ExpectLines();
  ExpectToBeFollowed(*id);
  ExpectRefusals();
  ExpectAHostThatIsGoneToBeNamed();
}

TEST_F(LogsCommand, ALogThatNobodyTakesCostsNothingAndIsWholeOnceItIsTaken) {
  const auto id = cluster_.Submit(
      Talking("writes", absl::StrCat("[ $RANK = 3 ] && seq ", kManyLines, "; echo written")));
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(WaitForLine("writes", "written"));
  const std::map<std::string, uint64_t> before = DaemonBytes();
  control::LogsClient client(
      {.coordinator = cluster_.address(), .credentials = cluster_.UserCredentials()});
  proto::ReadLogs request;
  request.set_job_id(id->value());
  absl::Notification first, taken;
  std::thread reader([&] {
    client
        .Read(request,
              [&](const proto::LogLines&) {
                if (!first.HasBeenNotified()) first.Notify();
                taken.WaitForNotification();
              })
        .IgnoreError();
  });
  first.WaitForNotification();
  // Others continue meanwhile: the job's ranks, and readers of logs.
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Logs({"writes", "--rank", "3", "--tail", "2"}).out,
                absl::StrCat(kManyLines, "\nwritten\n"));
    ExpectLittleMoreThan(before);
  }
  LetTrain("writes");
  EXPECT_EQ(cluster_.WaitForEnd(*id).state(), proto::FINISHED);
  client.Stop();
  taken.Notify();
  reader.join();
  const std::string log = ReadFile(cluster_.Status(*id).run_dir() + "/logs/rank3.log");
  ASSERT_GT(log.size(), size_t{kManyLines} * 7);
  // Not compared by a matcher, which would print it all.
  EXPECT_TRUE(Logs({"writes", "--rank", "3", "--tail", "all"}).out == log);
  ExpectLittleMoreThan(before);
}

}  // namespace
}  // namespace strata::tests
