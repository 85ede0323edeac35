#include "worker/agent/job_processes.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/cores.h"
#include "common/counted.h"
#include "common/job/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/control.pb.h"
#include "worker/agent/child_launch.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A shell script plays `strata rank` and `strata aggregator`: $1 tells which. It finds the launch
// file at $3 and the channel at descriptor 3.
class JobProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = testing::TempDir() + info->name();
    std::filesystem::create_directories(dir_);
    start_.mutable_record()->set_job_id(7);
    start_.mutable_record()->mutable_job()->set_name("job");
    start_.mutable_record()->mutable_job()->mutable_model()->set_zoo("lenet5");
    auto* node = start_.mutable_record()->mutable_view()->add_nodes();
    node->set_node(0);
    node->set_ranks(2);
  }

  // Runs the loop until the job is gone.
  void Play(const std::string& script, std::function<void(JobProcesses&)> meanwhile = nullptr) {
    JobProcesses::Options options;
    options.binary = dir_ + "/fake-strata";
    std::ofstream(options.binary) << "#!/bin/sh\n" << script << "\n";
    chmod(options.binary.c_str(), 0755);
    options.daemon = "w1";
    options.runs_dir = dir_ + "/runs";
    options.stop_grace = absl::Milliseconds(300);
    options.end_deadline = absl::Seconds(5);
    options.claim_deadline = claim_deadline_;
    options.cause_time = cause_time_;
    JobProcesses::Callbacks callbacks;
    callbacks.send = [this](proto::DaemonMessage message) { sent_.push_back(std::move(message)); };
    callbacks.on_gone = [this] { loop_.Stop(); };
    callbacks.admit = admit_;
    callbacks.take_gpus = take_gpus_;
    options.device_plugin = "/opt/plugin.so,devices=2";
    JobProcesses job(&loop_, options, start_, callbacks);
    loop_.Post([&job] { job.Start(); });
    if (meanwhile) loop_.Post([&job, meanwhile] { meanwhile(job); });
    loop_.After(absl::Seconds(60), [this] {
      ADD_FAILURE() << "the job is not gone after 60 s";
      loop_.Stop();
    });
    loop_.Run();
  }

  // Calls `then` once the job has sent this many messages.
  void OnceReported(size_t count, const std::function<void()>& then) {
    if (sent_.size() >= count) return then();
    loop_.After(absl::Milliseconds(10), [this, count, then] { OnceReported(count, then); });
  }

  // Calls `then` once `is_true`.
  void OnceTrue(const std::function<bool()>& is_true, const std::function<void()>& then) {
    if (is_true()) return then();
    loop_.After(absl::Milliseconds(10), [this, is_true, then] { OnceTrue(is_true, then); });
  }

  // Claims the run directory "own" as another job; fails while this one has it.
  absl::StatusOr<UniqueFd> ClaimAsAnother() {
    std::filesystem::create_directories(dir_ + "/runs/own");
    start_.mutable_record()->mutable_job()->set_run_dir("own");
    proto::JobRecord other = start_.record();
    other.set_job_id(6);
    return LockRunDirectory(dir_ + "/runs/own", other);
  }

  std::string Reason() {
    EXPECT_EQ(sent_.size(), 1u);
    return sent_.empty() ? "" : sent_.back().node_failed().reason();
  }

  std::string dir_;
  EventLoop loop_;
  proto::StartNode start_;
  std::vector<proto::DaemonMessage> sent_;
  absl::Duration claim_deadline_ = absl::ZeroDuration();
  absl::Duration cause_time_ = absl::Seconds(2);
  JobProcessesCore::Admit admit_;
  std::function<absl::StatusOr<std::vector<uint32_t>>()> take_gpus_;
};

TEST_F(JobProcessesTest, AreFinishedWhenAllEndWell) {
  Play("echo $1 was here");
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].node_finished().job_id(), 7u);
  std::string run_dir = dir_ + "/runs/job-7";
  EXPECT_EQ(ReadFile(run_dir + "/logs/rank0.log"), "rank was here\n");
  EXPECT_EQ(ReadFile(run_dir + "/logs/rank1.log"), "rank was here\n");
  EXPECT_EQ(ReadFile(run_dir + "/logs/aggregator-node0.log"), "aggregator was here\n");
  EXPECT_TRUE(std::filesystem::exists(run_dir + "/job.textproto"));
}

TEST_F(JobProcessesTest, ReadTheirLaunchFile) {
  // A field of a newer coordinator, which ranks could not read.
  proto::Job* const job = start_.mutable_record()->mutable_job();
  job->GetReflection()->MutableUnknownFields(job)->AddVarint(9999, 5);
  Play("cat $3");
  std::string log = ReadFile(dir_ + "/runs/job-7/logs/rank1.log");
  EXPECT_THAT(log, HasSubstr("\nrank: 1\n"));
  EXPECT_THAT(log, HasSubstr("\nlocal_ranks: 2\n"));
  EXPECT_THAT(log, HasSubstr("\nchannel_fd: 3\n"));
  EXPECT_THAT(log, Not(HasSubstr("9999")));
}

TEST_F(JobProcessesTest, ShareTheMachinesCoresWithAllRanksThere) {
  proto::Launch launch;
  launch.set_local_ranks(2);
  launch.mutable_record()->mutable_job()->mutable_program()->set_path("/bin/sh");
  const uint32_t cores = UsableCores();
  const auto threads = [&](uint32_t ranks, const Environment& own = {}) {
    return ThreadsOfRanks(launch, ranks, own).environment;
  };
  EXPECT_EQ(threads(2 * cores), "OMP_NUM_THREADS=1");
  EXPECT_EQ(threads(1000 * cores), "OMP_NUM_THREADS=1");
  EXPECT_EQ(ThreadsOfRanks(launch, 4 * cores, {}).text,
            absl::StrCat("1 thread each: ", Counted(cores, "core"), " for ", 4 * cores,
                         " ranks on this machine"));
  // An older coordinator does not say; then the node's own count.
  const uint32_t half = std::max(1u, cores / 2);
  EXPECT_EQ(threads(0), absl::StrCat("OMP_NUM_THREADS=", half));
  launch.set_local_ranks(1);
  EXPECT_EQ(threads(2), absl::StrCat("OMP_NUM_THREADS=", half));
  if (cores == AllowedProcessors()) {
    EXPECT_EQ(threads(1), "");
  }
  // An explicit setting wins.
  EXPECT_EQ(threads(4, {{"OMP_NUM_THREADS", "3"}}), "");
  launch.mutable_record()->mutable_job()->mutable_program()->add_env("OMP_NUM_THREADS=5");
  EXPECT_EQ(ThreadsOfRanks(launch, 4, {{"OMP_NUM_THREADS", "3"}}).text, "OMP_NUM_THREADS=5 each");
}

TEST_F(JobProcessesTest, TellRanksOfAProgramHowManyThreadsTheyHave) {
  // The aggregator is the fake strata, the ranks are the shell.
  proto::Program* const program = start_.mutable_record()->mutable_job()->mutable_program();
  program->set_path("/bin/sh");
  program->add_args("-c");
  program->add_args("echo threads $OMP_NUM_THREADS");
  start_.set_ranks_on_machine(2 * UsableCores());
  unsetenv("OMP_NUM_THREADS");
  Play("sleep 1");
  for (const char* rank : {"rank0", "rank1"}) {
    EXPECT_EQ(ReadFile(dir_ + "/runs/job-7/logs/" + rank + ".log"), "threads 1\n");
  }
}

TEST_F(JobProcessesTest, OnGpusAreAllToldWhichRankHasWhichOnceTheyAreFree) {
  start_.mutable_record()->mutable_job()->set_device(proto::Job::GPU);
  claim_deadline_ = absl::Seconds(60);
  int asked = 0;
  take_gpus_ = [&asked]() -> absl::StatusOr<std::vector<uint32_t>> {
    if (++asked < 3) return absl::UnavailableError("taken");
    return std::vector<uint32_t>{4, 1};
  };
  Play("cat $3");
  EXPECT_EQ(asked, 3);
  for (const char* process : {"rank0", "rank1", "aggregator-node0"}) {
    EXPECT_THAT(ReadFile(dir_ + "/runs/job-7/logs/" + process + ".log"),
                HasSubstr("device_plugin: \"/opt/plugin.so,devices=2\"\ndevices: 4\ndevices: 1\n"));
  }
}

TEST_F(JobProcessesTest, FailWhereTheirGpusStayTaken) {
  start_.mutable_record()->mutable_job()->set_device(proto::Job::GPU);
  take_gpus_ = [] { return absl::UnavailableError("the job needs 2 GPU slots, 0 of 2 are free"); };
  Play("true");
  EXPECT_EQ(Reason(), "node 0 (w1): the job needs 2 GPU slots, 0 of 2 are free");
}

TEST_F(JobProcessesTest, RunAProgramOfTheUsersWithTheLaunchFileInItsArguments) {
  auto* program = start_.mutable_record()->mutable_job()->mutable_program();
  program->set_path("/bin/echo");
  program->add_args("--launch={launch} --seed={seed}");
  Play("true");
  EXPECT_EQ(ReadFile(dir_ + "/runs/job-7/logs/rank0.log"), "--launch=/proc/self/fd/4 --seed=0\n");
}

TEST_F(JobProcessesTest, GiveAProgramTheVariablesThatTheJobSays) {
  proto::Program* program = start_.mutable_record()->mutable_job()->mutable_program();
  start_.mutable_record()->mutable_job()->set_ranks(5);
  start_.mutable_record()->mutable_job()->set_seed(99);
  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_first_rank(3);
  program->set_path("/bin/sh");
  program->add_args("-c");
  program->add_args("echo $# $STRATA_LAUNCH $WHO; echo $PATH");
  program->add_args("name");
  program->add_env("STRATA_LAUNCH={launch}");
  program->add_env("WHO={rank}/{ranks} {local_rank}/{local_ranks} {node} {seed}");
  program->add_env("PATH=/elsewhere");
  Play("echo $PATH");
  // No launch file is added to the arguments; the aggregator has the agent's own variables.
  const std::string logs = dir_ + "/runs/job-7/logs/";
  EXPECT_EQ(ReadFile(logs + "rank4.log"), "0 /proc/self/fd/4 4/5 1/2 0 99\n/elsewhere\n");
  EXPECT_NE(ReadFile(logs + "aggregator-node0.log"), "/elsewhere\n");
}

TEST_F(JobProcessesTest, TracesBearTheNamesOfTheirProcessesAndEndWithTheJob) {
  start_.mutable_record()->mutable_job()->mutable_trace()->set_steps(5);
  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_first_rank(4);
  // field 6: a trace of process "x" with one event of clock 5
  Play(R"(printf '\011\062\007\022\001x\042\002\030\005' >&3)");
  ASSERT_EQ(sent_.size(), 5u);
  std::vector<std::string> processes;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sent_[i].trace().job_id(), 7u);
    EXPECT_EQ(sent_[i].trace().events(0).clock(), 5u);
    processes.push_back(sent_[i].trace().process());
  }
  std::sort(processes.begin(), processes.end());
  const std::vector<std::string> all = {"node 0 aggregator", "node 0 rank 4", "node 0 rank 5"};
  EXPECT_EQ(processes, all);
  EXPECT_TRUE(sent_[3].has_node_finished());
  EXPECT_TRUE(IsTraceEnd(sent_[4].trace()));
  EXPECT_EQ(sent_[4].trace().job_id(), 7u);
}

TEST_F(JobProcessesTest, FailWithTheNameOfTheRankThatWasKilled) {
  Play("[ $1 = rank ] && grep -q '^rank: 1' $3 && kill -9 $$; sleep 100");
  EXPECT_EQ(Reason(), "rank 1 (node 0, w1): killed by signal 9 (Killed)");
}

TEST_F(JobProcessesTest, FailWithTheLogsLastLine) {
  Play("[ $1 = aggregator ] && sleep 100; echo out of cheese; exit 3");
  EXPECT_THAT(Reason(), HasSubstr("(node 0, w1): exited with status 3: out of cheese"));
}

TEST_F(JobProcessesTest, FailWithTheOwnEndOfARankThatIsLostThoughThatTakesAWhile) {
  cause_time_ = absl::Seconds(50);
  // field 7, 8 bytes: lost: field 1: local rank 1, field 2, 4 bytes: text: "gone"
  Play(
      "[ $1 = aggregator ] && printf '\\012\\072\\010\\010\\001\\022\\004gone' >&3 && exit 1; "
      "grep -q '^rank: 1' $3 || sleep 100; sleep 0.6; echo out of cheese; exit 3");
  EXPECT_EQ(Reason(), "rank 1 (node 0, w1): exited with status 3: out of cheese");
}

TEST_F(JobProcessesTest, FailWithWhatTheAggregatorSaysOfALostRankThatDoesNotEnd) {
  Play("[ $1 = aggregator ] && printf '\\012\\072\\010\\010\\001\\022\\004gone' >&3; sleep 100");
  EXPECT_EQ(Reason(), "aggregator (node 0, w1): gone");
}

TEST_F(JobProcessesTest, AreNotTakenForTheAggregatorWhateverARankSends) {
  // The same for local rank 0.
  Play("[ $1 = rank ] && printf '\\012\\072\\010\\010\\000\\022\\004gone' >&3; exit 0");
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(sent_[0].has_node_finished()) << sent_[0].DebugString();
}

TEST_F(JobProcessesTest, AreNotTakenForAnAggregatorThatThereIsNot) {
  start_.mutable_record()->mutable_job()->set_exchange(proto::Job::NONE);
  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_ranks(1);
  // The same for local rank 9.
  Play("printf '\\012\\072\\010\\010\\011\\022\\004gone' >&3; echo out of cheese; exit 3");
  EXPECT_EQ(Reason(), "rank 0 (node 0, w1): exited with status 3: out of cheese");
}

TEST_F(JobProcessesTest, FailWithWhatTheChildSaid) {
  // field 3, 4 bytes: failed: "oops"
  Play(
      "[ $1 = aggregator ] && printf '\\006\\032\\004oops' >&3; [ $1 = rank ] && sleep 100; exit "
      "1");
  EXPECT_EQ(Reason(), "aggregator (node 0, w1): oops");
}

TEST_F(JobProcessesTest, FailWithTheNameOfTheChildWhoseMessagesCannotBeRead) {
  // A length of 2^32 - 1 bytes.
  Play("[ $1 = aggregator ] && printf '\\377\\377\\377\\377\\017' >&3; sleep 100");
  EXPECT_EQ(Reason(),
            "aggregator (node 0, w1): its messages to the worker daemon cannot be read: message of "
            "4294967295 bytes");
}

TEST_F(JobProcessesTest, FailWhenAChildEndsInsideAMessage) {
  // An empty message and a part of one.
  Play("[ $1 = aggregator ] && printf '\\000\\006\\032' >&3; exit 0");
  EXPECT_EQ(Reason(),
            "aggregator (node 0, w1): its messages to the worker daemon cannot be read: closed by "
            "the other side inside a message");
}

TEST_F(JobProcessesTest, AreKilledWhenTheyIgnoreSigterm) {
  Play("trap '' TERM; while true; do sleep 1; done", [this](JobProcesses& job) {
    loop_.After(absl::Milliseconds(300), [&job] { job.Die("told to"); });
  });
  EXPECT_EQ(Reason(), "told to");
}

TEST_F(JobProcessesTest, AreStoppedSilentlyWhenTheCoordinatorSaysSo) {
  Play("sleep 100", [](JobProcesses& job) { job.Stop(); });
  EXPECT_TRUE(sent_.empty());
}

TEST_F(JobProcessesTest, FailWhenRanksEndThatTheAggregatorWaitsFor) {
  Play("[ $1 = aggregator ] && sleep 100; exit 0");
  EXPECT_THAT(Reason(), HasSubstr("w1): ended without having joined the job"));
}

TEST_F(JobProcessesTest, NameTheRunDirectoryThatCannotBeMade) {
  std::ofstream(dir_ + "/runs") << "a file";
  Play("true");
  EXPECT_EQ(Reason(), "node 0 (w1): cannot write to run directory " + dir_ +
                          "/runs/job-7: " + dir_ + "/runs: Not a directory");
}

TEST_F(JobProcessesTest, FailWhereAnotherJobHasTheRunDirectory) {
  auto claim = ClaimAsAnother();
  ASSERT_TRUE(claim.ok()) << claim.status();
  Play("true");
  EXPECT_EQ(Reason(), "node 0 (w1): run directory " + dir_ +
                          "/runs/own is in use by job 6 \"job\" of cluster 0000000000000000");
}

TEST_F(JobProcessesTest, StartWhenTheJobBeforeHasLeftTheRunDirectory) {
  claim_deadline_ = absl::Seconds(60);
  auto claim = ClaimAsAnother();
  ASSERT_TRUE(claim.ok()) << claim.status();
  Play("true",
       [&](JobProcesses&) { loop_.After(absl::Milliseconds(200), [&] { claim->Reset(); }); });
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(sent_[0].has_node_finished()) << Reason();
}

TEST_F(JobProcessesTest, HaveTheRunDirectoryAsLongAsOneOfThemLives) {
  ClaimAsAnother()->Reset();
  Play("true", [&](JobProcesses&) { EXPECT_FALSE(ClaimAsAnother().ok()); });
  EXPECT_TRUE(ClaimAsAnother().ok());
}

// Returns a script that starts a process which leaves its parent, its session and its group, and
// writes its pid.
std::string LeavesADaemon(const std::string& dir) {
  std::filesystem::remove(dir + "/daemons");
  return "cd " + dir +
         "; [ $1 = rank ] && (setsid sh -c 'echo $$ >>daemons; exec sleep 1000' &) & ";
}

// Returns how many of those there were.
int ExpectGone(const std::string& dir) {
  std::ifstream in(dir + "/daemons");
  int pid = 0, pids = 0;
  for (; in >> pid; ++pids) EXPECT_EQ(kill(pid, 0), -1) << pid << " has outlived its job";
  return pids;
}

TEST_F(JobProcessesTest, AreStoppedWithAllThatTheyHaveStarted) {
  const auto have_both_written = [this] {
    const std::string text = ReadFile(dir_ + "/daemons");
    return std::count(text.begin(), text.end(), '\n') == 2;
  };
  Play(LeavesADaemon(dir_) + "sleep 100",
       [&](JobProcesses& job) { OnceTrue(have_both_written, [&job] { job.Stop(); }); });
  EXPECT_EQ(ExpectGone(dir_), 2);
}

TEST_F(JobProcessesTest, EndWithAllThatTheyHaveStarted) {
  Play(LeavesADaemon(dir_) +
       "while [ $(cat daemons 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.02; done");
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(sent_[0].has_node_finished()) << sent_[0].DebugString();
  EXPECT_EQ(ExpectGone(dir_), 2);
}

TEST_F(JobProcessesTest, KeepTheBeginningAndTheEndOfALogThatIsTooLarge) {
  start_.mutable_record()->mutable_job()->set_rank_log_bytes(64 << 10);
  Play("seq -f %09.0f 0 99999");
  for (const char* process : {"rank0", "rank1", "aggregator-node0"}) {
    const std::string text = ReadFile(dir_ + "/runs/job-7/logs/" + process + ".log");
    EXPECT_LE(text.size(), (64 << 10) + 128) << process;
    EXPECT_EQ(text.substr(0, 10), "000000000\n") << process;
    EXPECT_THAT(text, HasSubstr(" bytes are missing here: rank_log_bytes of the job is 65536]"));
    EXPECT_THAT(text, testing::EndsWith("000099999\n")) << process;
  }
}

TEST_F(JobProcessesTest, WaitForNoPipeInTheirRunDirectory) {
  start_.mutable_record()->mutable_job()->set_exchange(proto::Job::NONE);
  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_ranks(1);
  // A program has replaced metrics.jsonl, and its log for the next attempt, by links.
  const std::string run_dir = dir_ + "/runs/job-7";
  Play("mkfifo " + run_dir + "/metrics.jsonl; mv " + run_dir + "/logs/rank0.log " + run_dir +
           "/x; mkfifo " + run_dir + "/logs/rank0.log; sleep 100",
       [&](JobProcesses& job) {
         OnceTrue(
             [&] {
               return std::filesystem::exists(run_dir + "/logs/rank0.log") &&
                      std::filesystem::is_fifo(run_dir + "/logs/rank0.log");
             },
             [&job] {
               proto::MetricsRecord record;
               record.set_step(10);
               job.Append(record);
             });
       });
  EXPECT_EQ(Reason(), "node 0 (w1): cannot open " + run_dir + "/metrics.jsonl: a pipe, not a file");
  sent_.clear();
  start_.mutable_record()->set_attempt(1);
  std::filesystem::remove(run_dir + "/metrics.jsonl");
  Play("true");
  EXPECT_EQ(Reason(),
            "node 0 (w1): cannot open log file " + run_dir + "/logs/rank0.log: not a file");
}

TEST_F(JobProcessesTest, NameTheProgramThatCannotBeStarted) {
  start_.mutable_record()->mutable_job()->mutable_program()->set_path("/nonexistent");
  Play("sleep 100");
  EXPECT_EQ(Reason(), "node 0 (w1): cannot start /nonexistent: No such file or directory");
}

TEST_F(JobProcessesTest, PassReadyUpAndRunDown) {
  start_.mutable_record()->mutable_job()->set_exchange(proto::Job::NONE);
  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_ranks(1);
  // field 1, empty: ready; then the length of RunNode is read.
  Play("printf '\\002\\012\\000' >&3; head -c 1 <&3 >/dev/null; echo ran",
       [](JobProcesses& job) { job.Run(proto::RunNode()); });
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].node_ready().job_id(), 7u);
  EXPECT_EQ(sent_[0].node_ready().run_dir(), dir_ + "/runs/job-7");
  EXPECT_TRUE(sent_[1].has_node_finished());
  EXPECT_EQ(ReadFile(dir_ + "/runs/job-7/logs/rank0.log"), "ran\n");
}

TEST_F(JobProcessesTest, SayAgainThatTheyAreReadyAndRunOnce) {
  start_.mutable_record()->mutable_job()->set_exchange(proto::Job::NONE);
  start_.mutable_record()->mutable_view()->mutable_nodes(0)->set_ranks(1);
  // One RunNode in its AgentMessage, with the length before it, has 3 bytes.
  Play("printf '\\002\\012\\000' >&3; head -c 3 <&3 >/dev/null; timeout 0.2 head -c 1 <&3; true",
       [this](JobProcesses& job) {
         job.RepeatReady();  // nothing yet
         OnceReported(1, [&job] {
           job.RepeatReady();
           for (int i = 0; i < 2; ++i) job.Run(proto::RunNode());
         });
       });
  ASSERT_GE(sent_.size(), 3u);
  EXPECT_EQ(sent_[0].SerializeAsString(), sent_[1].SerializeAsString());
  EXPECT_TRUE(sent_[0].has_node_ready());
  EXPECT_TRUE(sent_.back().has_node_finished());
  EXPECT_EQ(ReadFile(dir_ + "/runs/job-7/logs/rank0.log"), "") << "told to run twice";
}

TEST_F(JobProcessesTest, FailWithTheFigureWhereTheNodeHasNotTheMemory) {
  admit_ = [](const proto::Job&, const proto::Layout&, const proto::Placement&) {
    return absl::ResourceExhaustedError("it needs up to 3.0 MiB");
  };
  Play("[ $1 = aggregator ] && printf '\\002\\012\\000' >&3; sleep 100");
  EXPECT_EQ(Reason(), "node 0 (w1): it needs up to 3.0 MiB");
}

TEST_F(JobProcessesTest, AskForMemoryAgainOnceThePlacementIsKnown) {
  int asked = 0;
  admit_ = [&asked](const proto::Job&, const proto::Layout&, const proto::Placement& placement) {
    ++asked;
    return placement.chunk_elements() == 0 ? absl::OkStatus()
                                           : absl::ResourceExhaustedError("with its messages");
  };
  proto::RunNode run;
  run.mutable_record()->mutable_placement()->set_chunk_elements(256);
  Play("[ $1 = aggregator ] && printf '\\002\\012\\000' >&3; sleep 100",
       [this, run](JobProcesses& job) { OnceReported(1, [&job, run] { job.Run(run); }); });
  EXPECT_EQ(asked, 2);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_TRUE(sent_[0].has_node_ready());
  EXPECT_EQ(sent_[1].node_failed().reason(), "node 0 (w1): with its messages");
}

TEST_F(JobProcessesTest, WaitForTheFinalMetricsBeforeTheyAreFinished) {
  const auto append = [this](JobProcesses& job) {
    EXPECT_FALSE(sent_.back().has_node_finished());
    proto::MetricsRecord record;
    record.set_final(true);
    job.Append(record);
  };
  // field 2 with field 13 (final) true
  Play("[ $1 = rank ] && printf '\\004\\022\\002\\150\\001' >&3; exit 0", [&](JobProcesses& job) {
    OnceReported(2, [&] { loop_.After(absl::Milliseconds(300), [&] { append(job); }); });
  });
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_TRUE(sent_[0].rank_report().final());
  EXPECT_TRUE(sent_[2].has_node_finished());
  EXPECT_THAT(ReadFile(dir_ + "/runs/job-7/metrics.jsonl"), HasSubstr("\"final\":true"));
}

TEST_F(JobProcessesTest, WriteEachStepsMetricsOnce) {
  Play("sleep 0.2", [](JobProcesses& job) {
    for (uint64_t step : {10, 20, 10, 20, 30}) {
      proto::MetricsRecord record;
      record.set_step(step);
      job.Append(record);
    }
    for (uint64_t step : {5, 15, 15, 25}) {
      proto::MetricsRecord late;
      late.set_step(step);
      late.set_test_accuracy(0.5);
      job.Append(late);
    }
  });
  std::string text = ReadFile(dir_ + "/runs/job-7/metrics.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  EXPECT_LT(text.find("\"step\":20"), text.find("\"step\":30"));
}

}  // namespace
}  // namespace strata::worker
