// A script of Python's stands for the served task, so that it can answer what none would.
#include "compare/virtual_time/task_problem.h"

#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::compare {
namespace {

// Answers as python/strata/_serve.py does: weights w of 3 and b of 1 elements, whose gradients are
// the weights times rank + 1, for two samples; FAULT is a statement before each answer.
constexpr char kServer[] = R"python(#!/usr/bin/env python3
import json, mmap, os, socket, struct, sys, time
lines = socket.socket(fileno=3)
for line in lines.makefile("rb"):
    ask = json.loads(line)
    do = ask["do"]
    if do == "describe":
        answer = {"described": {"version": 1, "batch": 2, "steps_per_epoch": 4, "total_steps": 8,
                  "tensors": [{"name": "w", "shape": [3]}, {"name": "b", "shape": []}],
                  "evaluate_every": 4, "optimizer": "sgd {}", "rate": 0.5}}
    elif do == "attach":
        memory = mmap.mmap(4, 32)
        memory[:16] = struct.pack("4f", 9, 1, 2, 3)
        answer = {"attached": {}}
    elif do == "compute":
        values = [(ask["rank"] + 1) * w for w in struct.unpack("4f", memory[:16])]
        memory[16:] = struct.pack("4f", *values)
        answer = {"computed": {"samples": 2, "loss": 0.25}}
    else:
        answer = {"measured": {"values": {"test_accuracy": 0.5, "steps": ask["step"]}}}
    FAULT
    lines.sendall(json.dumps(answer).encode() + b"\n")
)python";

class TaskProblemTest : public testing::Test {
 protected:
  // The options of a job whose program is the server with that fault.
  TaskProcess::Options Serve(const std::string& fault = "pass") {
    const std::string path = absl::StrCat(testing::TempDir(), "/server-", servers_++);
    std::string text = kServer;
    text.replace(text.find("FAULT"), 5, fault);
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
    TaskProcess::Options options;
    options.job.set_name("t");
    options.job.set_ranks(2);
    options.job.mutable_program()->set_path(path);
    options.job.mutable_program()->add_args("dir/mine.py");
    options.job.mutable_optimizer()->mutable_from_program();
    FillDefaults(&options.job);
    return options;
  }

  // The error that keeps both functions from being called once.
  absl::Status Trouble(const std::string& fault) {
    const auto problem = TaskProblem::Create(Serve(fault));
    return problem.ok() ? (*problem)->Try() : problem.status();
  }

  static inline int servers_ = 0;
};

TEST_F(TaskProblemTest, HasTheTasksTensorsStepsAndOptimizer) {
  const auto problem = TaskProblem::Create(Serve());
  ASSERT_EQ(problem.status(), absl::OkStatus());
  EXPECT_EQ((*problem)->tensors()[0].tensor.name, "b");
  EXPECT_EQ((*problem)->tensors()[1].tensor.name, "w");
  EXPECT_EQ((*problem)->tensors().elements(), 4u);
  EXPECT_EQ((*problem)->plan().total_steps, 8u);
  EXPECT_EQ((*problem)->plan().report_every, 4u);
  EXPECT_TRUE((*problem)->job().optimizer().has_sgd());
  EXPECT_TRUE((*problem)->says_rates());
  EXPECT_EQ((*problem)->rate(), 0.5f);
  std::vector<float> arena(4);
  (*problem)->FirstWeights(arena.data());
  EXPECT_EQ(arena, (std::vector<float>{9, 1, 2, 3}));
}

TEST_F(TaskProblemTest, ComputesForEachRankByTheWeightsOfItsNode) {
  const auto problem = TaskProblem::Create(Serve());
  ASSERT_EQ(problem.status(), absl::OkStatus());
  ComputePool pool(1);
  std::vector<float> arena = {1, 2, 3, 4};
  const auto rank = (*problem)->MakeRank(1, arena.data());
  rank->Begin(5, &pool);
  const auto result = rank->Finish(&pool);
  ASSERT_EQ(result.status(), absl::OkStatus());
  EXPECT_EQ(result->samples, 2u);
  EXPECT_EQ(result->loss, 0.5);  // of both samples
  EXPECT_EQ(std::vector<float>(rank->gradients(), rank->gradients() + 4),
            (std::vector<float>{2, 4, 6, 8}));
  auto measuring = (*problem)->Measure(arena.data(), 4, *rank, &pool);
  ASSERT_EQ(measuring.status(), absl::OkStatus());
  proto::Measurement measurement;
  EXPECT_EQ((*measuring)->Finish(&pool, &measurement), absl::OkStatus());
  EXPECT_EQ(measurement.accuracy(), 0.5);
  EXPECT_FALSE(measurement.has_loss());
  EXPECT_EQ(measurement.values().at("steps"), 4);
}

TEST_F(TaskProblemTest, NumbersThatAreNoneEndARunButNotTheTask) {
  const auto problem = TaskProblem::Create(
      Serve("if ask.get('step') == 1: memory[28:32] = struct.pack('f', float('nan'))\n"
            "    if ask.get('step') == 2: answer['computed']['loss'] = '-Infinity'"));
  ASSERT_EQ(problem.status(), absl::OkStatus());
  ComputePool pool(1);
  std::vector<float> arena = {1, 2, 3, 4};
  const auto rank = (*problem)->MakeRank(1, arena.data());
  const std::vector<std::string> expected = {
      "", "rank 1: the gradient of \"w\" is not finite at step 1",
      "rank 1: loss is infinite at step 2", ""};
  for (uint64_t step = 0; step < expected.size(); ++step) {
    rank->Begin(step, &pool);
    const absl::Status status = rank->Finish(&pool).status();
    EXPECT_EQ(status.message(), expected[step]);
    EXPECT_EQ(status.ok(), expected[step].empty());
    EXPECT_EQ((*problem)->health(), absl::OkStatus());
  }
}

TEST_F(TaskProblemTest, WhatGoesWrongIsALineThatNamesTheScript) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"answer = {'failed': 'no (mine.py:2)'}", "mine.py: no (mine.py:2)"},
      {"answer = {} if do == 'compute' else answer",
       "mine.py: rank 0 at step 0: the task answers nothing, not computed"},
      {"answer = {'failed': 'x'} if do == 'evaluate' else answer", "mine.py: after step 0: x"},
      {"answer = {'attached': {}}", "mine.py: the task answers attached, not described"},
      {"if do == 'attach': memory[:4] = struct.pack('f', float('inf'))",
       "mine.py: params: a first weight is NaN or infinite"},
      {"lines.sendall(b'x' * 3000000)", "mine.py: the task's answer is longer than 1 MiB"},
      {"if do == 'describe': answer['described']['optimizer'] = 'mean {}'",
       "optimizer: mean: a task has no optimizer of its own"}};
  for (const auto& [fault, expected] : cases) {
    const absl::Status status = Trouble(fault);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fault;
    EXPECT_EQ(status.message(), expected) << fault;
  }
  EXPECT_EQ(Trouble("pass"), absl::OkStatus());
}

TEST_F(TaskProblemTest, AProcessThatDiesIsNamedWithWhatItSaidLast) {
  const absl::Status exited = Trouble("if do == 'compute': print('out of paper'); sys.exit(3)");
  EXPECT_EQ(exited.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(exited.message(),
            "mine.py: rank 0 at step 0: the process that serves the task exited with status 3: "
            "out of paper");
  const absl::Status killed = Trouble("os.kill(os.getpid(), 9)");
  EXPECT_EQ(killed.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(killed.message(), "killed by signal 9")) << killed;
}

TEST_F(TaskProblemTest, StopsWhileItWaitsAndLeavesNoProcess) {
  std::atomic<bool> stop = false;
  TaskProcess::Options options = Serve(absl::StrCat(
      "open('", testing::TempDir(), "/pid', 'w').write(str(os.getpid()))\n    time.sleep(1000)"));
  options.stop = &stop;
  std::thread stopper([&stop] {
    absl::SleepFor(absl::Milliseconds(300));
    stop = true;
  });
  const absl::Status status = TaskProblem::Create(options).status();
  stopper.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  pid_t pid = 0;
  std::ifstream(absl::StrCat(testing::TempDir(), "/pid")) >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(TaskProblemTest, ADescriptionThatDoesNotComeIsNoTask) {
  TaskProcess::Options options = Serve("time.sleep(1000)");
  options.describe_within = absl::Milliseconds(200);
  const absl::Status status = TaskProblem::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(status.message(), "mine.py: it has not come to its end in 200ms"))
      << status;
}

TEST_F(TaskProblemTest, ProgramsThatOwnTheirLoopAreRefused) {
  TaskProcess::Options options = Serve();
  options.job.mutable_program()->set_args(0, "--rank={rank}");
  EXPECT_EQ(TaskProblem::Create(options).status().message(),
            "program: in virtual time a program is a script *.py that defines a strata.Task; this "
            "one owns its loop, and runs live only");
  options = Serve();
  options.job.mutable_program()->add_args("--rank={rank}");
  EXPECT_EQ(TaskProblem::Create(options).status().message(),
            "program.args: \"--rank={rank}\": in virtual time one process computes for all ranks");
}

}  // namespace
}  // namespace strata::compare
