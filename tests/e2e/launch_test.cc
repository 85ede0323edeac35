// `strata launch`: a cluster on several hosts. Here all hosts are this machine, behind a command
// that replaces ssh: like sshd it runs its command in a new session, which outlives a killed client
// and notices that only by its closed input.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/process.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/job_secrets.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Launch : public testing::Test {
 protected:
  Launch() {
    WriteProgram("ssh", R"(#!/bin/bash
host=$1
exec 9>>)" + TestDir() + R"(/sessions  # how the test finds all that runs
printf '%s\n' "$@" >>)" + TestDir() +
                            R"(/arguments
case "$host" in
  down*) printf 'ssh: connect to host %s port 22: No route to host\r\n' "$host" >&2; exit 255 ;;
  silent*) exec sleep 600 ;;
  bare*) set -- "$host" "exec /nowhere/strata" ;;
  old*) set -- "$host" "echo 'strata 0.0.1' && exec cat" ;;
  noisy*) echo "Welcome to $host" ;;
esac
exec 3<&0
setsid --wait sh -c "$2" < <(exec cat <&3) 3<&-
)");
    Hosts("n1 role=coordinator,server,worker\nnoisy2\n", "slots=2");
  }

  ~Launch() override {
    EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(30)));
    EXPECT_THAT(Processes(), IsEmpty());
  }

  void WriteProgram(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(TestDir(), "/", name);
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  // Adds to each line that all hosts are this machine.
  void Hosts(const std::string& lines, const std::string& more = "") {
    std::string text;
    for (char c : lines) {
      text += c == '\n' ? absl::StrCat(" address=127.0.0.1 ", more, "\n") : std::string(1, c);
    }
    std::ofstream(TestDir() + "/hosts") << text;
  }

  std::vector<std::string> Args(const std::vector<std::string>& more,
                                const std::string& runs = "runs") const {
    std::vector<std::string> args = {"launch",
                                     "--hosts",
                                     TestDir() + "/hosts",
                                     "--ssh",
                                     ssh_,
                                     "--runs",
                                     absl::StrCat(TestDir(), "/", runs)};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  Command StartWithLongJob() {
    proto::Job job = LenetJob("long", 4, 2, 10'000'000);
    job.mutable_debug()->clear_hash_weights();
    Command launch = StartStrata(Args({"--job", WriteJob(TestDir(), job), "--servers", "2"}));
    const std::string metrics = runs_ + "/long-1/metrics.jsonl";
    EXPECT_TRUE(WaitUntil(
        [&] { return std::filesystem::exists(metrics) || launch.process->TryReap().has_value(); }));
    EXPECT_EQ(ListProcesses("worker").size(), 2u);
    EXPECT_EQ(ListProcesses("rank").size(), 4u);
    return launch;
  }

  // The key file that a launcher without a job lends to other commands.
  static std::string LentKeys(const Command& launch) {
    std::string keys;
    EXPECT_TRUE(WaitUntil([&] {
      std::ifstream in(launch.base + ".out");
      for (std::string line; keys.empty() && std::getline(in, line);) keys = ValueIn(line, "keys");
      return !keys.empty();
    }));
    return keys;
  }

  const std::string runs_ = TestDir() + "/runs";
  const std::string ssh_ = TestDir() + "/ssh";
  // Below the ephemeral ports of the system.
  const int port_ = 10'000 + getpid() % 20'000;
};

// Returns the parent of a process.
int ParentOf(int pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string id, name, state;
  int parent = 0;
  in >> id >> name >> state >> parent;
  return parent;
}

TEST_F(Launch, RunsAJobOnAllHostsAndExitsWithItsStatus) {
  const proto::Job job = LenetJob("job", 4, 2, 20);
  const CommandResult result =
      RunStrata(Args({"--job", WriteJob(TestDir(), job), "--servers", "2", "--mode", "sync"}));
  EXPECT_EQ(result.status.ToString(), "exited with status 0") << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* part :
       {"2 hosts answer, each with strata ", "[1/5] coordinator on n1 is ready\n",
        "[3/5] server s1 on n1 is ready\n", "[5/5] worker noisy2 is ready\n",
        "strata launch ready coordinator=127.0.0.1:", " hosts=2 servers=2 workers=2 slots=4 ",
        "4 ranks on n1, noisy2\n", "step 20/20", "finished after "}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_EQ(Hashes(runs_ + "/job-1", 0).size(), 21u);
  EXPECT_TRUE(std::filesystem::exists(runs_ + "/daemons/worker-noisy2.log"));
}

TEST_F(Launch, AJobThatFailsIsTheExitStatus) {
  proto::Job job = LenetJob("job", 2, 1, 20);
  job.mutable_data()->clear_synthetic();
  job.mutable_data()->mutable_idx()->set_dir("/nowhere");
  const CommandResult result = RunStrata(Args({"--job", WriteJob(TestDir(), job)}));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_THAT(result.err, HasSubstr("/nowhere"));
}

TEST_F(Launch, EachHostThatCannotBeUsedIsNamedOnceWithTheReason) {
  Hosts("n1\ndown2\nbare3\nold4\n");
  const CommandResult result = RunStrata(Args({}));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_THAT(result.err, HasSubstr("strata: error: host down2: cannot be reached: ssh: connect to "
                                    "host down2 port 22: No route to host\n"));
  EXPECT_THAT(result.err, testing::ContainsRegex(
                              "strata: error: host bare3: cannot run .*/cli/strata there \\(see "
                              "--binary\\): .*/nowhere/strata: not found\n"));
  EXPECT_THAT(result.err,
              testing::ContainsRegex("strata: error: host old4: .* there is strata 0\\.0\\.1, this "
                                     "is strata [0-9.]+\n"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 3) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("ready")));
}

TEST_F(Launch, AHostThatDoesNotAnswerIsNamedAfterTheTimeout) {
  Hosts("n1\nsilent2\n");
  const CommandResult result = RunStrata(Args({"--timeout", "1"}));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_THAT(result.err, HasSubstr("strata: error: host silent2: no answer within 1s\n"));
}

TEST_F(Launch, ADaemonThatCannotStartIsNamedAndTheOthersAreStopped) {
  Hosts("n1\nn2 role=server,worker\n");
  const std::string port = absl::StrCat(port_);
  Command holder =
      StartStrata(Args({"--server-port", port, "--port", absl::StrCat(port_ + 1)}, "first"));
  ASSERT_TRUE(WaitUntil([] { return ListProcesses("worker").size() == 2; }));
  const CommandResult result =
      RunStrata(Args({"--server-port", port, "--port", absl::StrCat(port_ + 2)}, "second"));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_THAT(result.err, AllOf(HasSubstr("strata: error: server s0 on n2: "), HasSubstr(port)));
  EXPECT_EQ(ListProcesses("worker").size(), 2u) << "only the first cluster's";
  holder.process->Signal(SIGTERM);
  EXPECT_EQ(Finish(std::move(holder)).status.ToString(), "exited with status 0");
}

TEST_F(Launch, WithoutAJobItStaysUntilItIsInterrupted) {
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  Command launch = StartStrata(Args({"--port", absl::StrCat(port_)}));
  const std::string keys = LentKeys(launch);
  ASSERT_NE(keys, "");
  EXPECT_THAT(RunStrata({"nodes", "--coordinator", address, "--keys", keys}).out,
              HasSubstr("noisy2"));
  const std::string job = WriteJob(TestDir(), LenetJob("job", 4, 2, 5));
  const std::vector<std::string> submit = {"submit", job, "--follow", "--coordinator", address};
  EXPECT_THAT(RunStrata(submit).err, HasSubstr("there are no keys for it"));
  std::vector<std::string> with_keys = submit;
  with_keys.insert(with_keys.end(), {"--keys", keys});
  EXPECT_EQ(RunStrata(with_keys).status.code, 0);
  launch.process->Signal(SIGINT);
  const CommandResult result = Finish(std::move(launch));
  EXPECT_EQ(result.status.ToString(), "exited with status 0") << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out,
              HasSubstr(absl::StrCat("--follow --coordinator ", address, " --keys ", keys, "\n")));
  EXPECT_FALSE(std::filesystem::exists(keys)) << "they go with the cluster";
}

// The lent file has the user's key and the authority's certificate, as all key files of the run do.
TEST_F(Launch, NoKeyIsOnACommandLineInAnEnvironmentOrAnArgumentOfSsh) {
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  Command launch = StartStrata(Args({"--port", absl::StrCat(port_)}));
  const std::string keys = LentKeys(launch);
  ASSERT_NE(keys, "");
  const std::string job = WriteJob(TestDir(), LenetJob("job", 4, 2, 10'000'000));
  ASSERT_EQ(RunStrata({"submit", job, "--coordinator", address, "--keys", keys}).status.code, 0);
  ASSERT_TRUE(WaitUntil([] { return ListProcesses("rank").size() == 4; }));

  std::string shown = ReadAll(TestDir() + "/arguments");
  EXPECT_THAT(shown, AllOf(HasSubstr("noisy2\n"), HasSubstr("cli/strata")));
  int looked_at = 0;
  for (const std::string& process : Processes()) {
    const std::string pid = process.substr(0, process.find(':'));
    for (const char* file : {"cmdline", "environ"}) {
      absl::StrAppend(&shown, ReadAll(absl::StrCat("/proc/", pid, "/", file)));
    }
    ++looked_at;
  }
  EXPECT_GE(looked_at, 4 + 2 + 4 + 2 + 1) << "ranks, aggregators, daemons, hosts, the launcher";
  EXPECT_THAT(shown, HasSubstr("--keys-fd"));
  for (const std::string& line : PemLines(keys)) EXPECT_THAT(shown, Not(HasSubstr(line)));

  EXPECT_EQ(RunStrata({"cancel", "1", "--coordinator", address, "--keys", keys}).status.code, 0);
  EXPECT_TRUE(WaitUntil([] { return ListProcesses("rank").empty(); }));
  launch.process->Signal(SIGINT);
  EXPECT_EQ(Finish(std::move(launch)).status.ToString(), "exited with status 0");
}

TEST_F(Launch, NothingIsLeftOnTheHostsAfterCtrlC) {
  Command launch = StartWithLongJob();
  const std::vector<std::string> traces = Traces();
  launch.process->Signal(SIGINT);
  const CommandResult result = Finish(std::move(launch));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_EQ(result.err, "strata: error: stopped before the job had ended\n");
  EXPECT_THAT(Processes(), IsEmpty()) << "when it ends, its daemons have ended";
  EXPECT_THAT(Remaining(traces), IsEmpty());
}

TEST_F(Launch, NothingIsLeftOnTheHostsAfterItWasKilled) {
  Command launch = StartWithLongJob();
  const std::vector<std::string> traces = Traces();
  launch.process->Signal(SIGKILL);
  Finish(std::move(launch));
  EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(30)));
  EXPECT_THAT(Processes(), IsEmpty());
  EXPECT_THAT(RemainingAtLast(traces), IsEmpty());
}

// As if the launcher's machine lost power: the connection stays, and nothing arrives.
TEST_F(Launch, AHostThatHearsNothingEndsItsDaemons) {
  int input[2];
  ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
  const UniqueFd read_end(input[0]), write_end(input[1]);
  Process::Spec spec;
  spec.executable = StrataBinary();
  spec.args = {"strata", "host", "--logs", TestDir(), "--silence", "2"};
  spec.stdin_fd = read_end.get();
  spec.log_path = TestDir() + "/host.out";
  auto host = Process::Start(spec);
  ASSERT_TRUE(host.ok()) << host.status();
  const std::string start =
      absl::StrCat(R"({"kind":"start","title":"c","args":["coordinator","--insecure","--listen",)",
                   R"("127.0.0.1:0","--state",")", TestDir(), "/state\"]}\n");
  ASSERT_EQ(write(write_end.get(), start.data(), start.size()), static_cast<ssize_t>(start.size()));
  EXPECT_TRUE(WaitUntil([] { return ListProcesses("coordinator").size() == 1; }));
  EXPECT_TRUE(WaitUntil([&] { return (*host)->TryReap().has_value(); }));
  std::ifstream in(spec.log_path);
  const std::string said{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(said, AllOf(HasSubstr(R"("kind":"ready")"), HasSubstr(R"("kind":"ended")"),
                          HasSubstr("nothing was heard from the launcher for 2s\n")));
  EXPECT_THAT(Processes(), IsEmpty());
}

TEST_F(Launch, AHostThatIsLostFailsItsJobAndTheOtherHostIsStopped) {
  Command launch = StartWithLongJob();
  const std::vector<int> workers = ListProcesses("worker --name noisy2");
  ASSERT_EQ(workers.size(), 1u);
  kill(ParentOf(workers[0]), SIGKILL);
  const CommandResult result = Finish(std::move(launch));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_THAT(result.err, HasSubstr("strata: warning: worker noisy2: the connection to host noisy2 "
                                    "is lost: "));
  EXPECT_THAT(result.err, testing::ContainsRegex("strata: error: .*failed.*noisy2"));
}

TEST_F(Launch, DaemonsThatDieAreStartedAgain) {
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  Command launch = StartStrata(Args({"--port", absl::StrCat(port_)}));
  const std::string keys = LentKeys(launch);
  ASSERT_NE(keys, "");
  for (const char* daemon : {"worker --name noisy2", "server", "coordinator"}) {
    const std::vector<int> before = ListProcesses(daemon);
    ASSERT_EQ(before.size(), 1u) << daemon;
    kill(before[0], SIGKILL);
    EXPECT_TRUE(WaitUntil([&] {
      const std::vector<int> now = ListProcesses(daemon);
      return now.size() == 1 && now[0] != before[0];
    })) << daemon;
  }
  const std::string job = WriteJob(TestDir(), LenetJob("job", 4, 2, 5));
  EXPECT_EQ(
      RunStrata({"submit", job, "--follow", "--coordinator", address, "--keys", keys}).status.code,
      0);
  launch.process->Signal(SIGINT);
  const CommandResult result = Finish(std::move(launch));
  EXPECT_EQ(result.status.ToString(), "exited with status 0") << result.err;
  for (const char* daemon : {"worker noisy2", "server s0 on n1", "coordinator on n1"}) {
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat(
                                "strata: warning: ", daemon,
                                ": killed by signal 9 (Killed); it is started again after ")));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("[5/4]"))) << "who is ready is told once";
}

TEST_F(Launch, TheCoordinatorsHostThatIsLostEndsItAll) {
  Command launch = StartWithLongJob();
  const std::vector<int> coordinators = ListProcesses("coordinator");
  ASSERT_EQ(coordinators.size(), 1u);
  kill(ParentOf(coordinators[0]), SIGKILL);
  const CommandResult result = Finish(std::move(launch));
  EXPECT_EQ(result.status.ToString(), "exited with status 1");
  EXPECT_THAT(result.err, HasSubstr("strata: error: coordinator on n1: the connection to host n1 "
                                    "is lost: "));
}

}  // namespace
}  // namespace strata::tests
