#include "common/job/program_optimizer.h"

#include <string>

#include "absl/strings/match.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job JobOf(const std::string& fields) {
  proto::Job job = *ParseJob("name: 'a' ranks: 4 program { path: 'p' }", "base");
  const auto more = ParseJob(fields, "fields");
  EXPECT_TRUE(more.ok()) << more.status();
  job.MergeFrom(*more);
  FillDefaults(&job);
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  return job;
}

// What is wrong when the program of such a job names `text`.
std::string WhyNot(const std::string& fields, const std::string& text, bool says_rates = false) {
  proto::Job job = JobOf(fields);
  const auto named = ParseOptimizer(text);
  EXPECT_TRUE(named.ok()) << named.status();
  const absl::Status taken = TakeProgramOptimizer(&*named, says_rates, &job);
  EXPECT_TRUE(taken.ok() || absl::IsInvalidArgument(taken)) << taken;
  return std::string(taken.message());
}

constexpr char kFromProgram[] = "optimizer { from_program {} } ";

TEST(ProgramOptimizerTest, IsReadWithItsDefaultsFilledIn) {
  const auto adam = ParseOptimizer("adam { beta1: 0.8 } clip_norm: 2");
  ASSERT_TRUE(adam.ok()) << adam.status();
  EXPECT_FLOAT_EQ(adam->adam().beta1(), 0.8f);
  EXPECT_FLOAT_EQ(adam->adam().beta2(), 0.999f);
  EXPECT_EQ(OptimizerText(*ParseOptimizer("sgd { weight_decay: 0.5 }")),
            "sgd { weight_decay: 0.5 }");
  EXPECT_EQ(ParseOptimizer("sgd { lr: 1 }").status().message(),
            "the program's optimizer:1:7: Message type \"strata.proto.Sgd\" has no field named "
            "\"lr\".");
}

TEST(ProgramOptimizerTest, CompletesTheJob) {
  proto::Job job = JobOf(
      "optimizer { from_program {} clip_norm: 3 } exchange: RING "
      "program { path: 'p' samples_per_rank: 2 }");
  const proto::Optimizer named = *ParseOptimizer("nesterov { momentum: 0.5 }");
  ASSERT_TRUE(TakeProgramOptimizer(&named, true, &job).ok());
  EXPECT_FLOAT_EQ(job.optimizer().nesterov().momentum(), 0.5f);
  EXPECT_TRUE(job.optimizer().nesterov().has_weight_decay());
  EXPECT_EQ(job.optimizer().clip_norm(), 3);
}

TEST(ProgramOptimizerTest, JobAndProgramAgreeOnWhoNamesIt) {
  proto::Job awaits = JobOf(kFromProgram);
  EXPECT_EQ(TakeProgramOptimizer(nullptr, true, &awaits).message(),
            "optimizer.from_program: the program has named no optimizer: it is to name one when it "
            "starts (JobFacts::optimizer, strata_facts.optimizer), or the job is to set another "
            "optimizer");
  EXPECT_EQ(WhyNot("optimizer { adamw {} }", "sgd {}"),
            "optimizer: the job has adamw, but the program names sgd: set optimizer { from_program "
            "{} }, or let the program name none");
  EXPECT_EQ(WhyNot(kFromProgram, "from_program {}"),
            "optimizer: the program names from_program, which is no kind of optimizer");
  EXPECT_EQ(WhyNot(kFromProgram, "clip_norm: 1"),
            "optimizer: the program names none, which is no kind of optimizer");
  proto::Job own = JobOf("optimizer { adamw {} }");
  EXPECT_TRUE(TakeProgramOptimizer(nullptr, true, &own).ok());
}

TEST(ProgramOptimizerTest, WhatTheJobHasAlreadyMayBeNamed) {
  proto::Job job = JobOf("optimizer { adamw { weight_decay: 0.5 } }");
  const proto::Job before = job;
  const auto same = ParseOptimizer("adamw { weight_decay: 0.5 beta1: 0.9 }");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(TakeProgramOptimizer(&*same, true, &job), absl::OkStatus());
  EXPECT_EQ(job.SerializeAsString(), before.SerializeAsString());
  const auto other = ParseOptimizer("adamw { weight_decay: 0.25 }");
  EXPECT_FALSE(TakeProgramOptimizer(&*other, true, &job).ok());
}

TEST(ProgramOptimizerTest, WhatDoesNotGoWithTheKindIsRefusedOnceItIsKnown) {
  const std::string from = kFromProgram;
  EXPECT_TRUE(absl::StrContains(WhyNot(from + "consistency { async {} }", "mean {}"),
                                "optimizer.mean: needs sync"));
  EXPECT_TRUE(absl::StrContains(WhyNot(from + "consistency { lazy { staleness: 2 } }", "mean {}"),
                                "optimizer.mean: needs sync"));
  EXPECT_TRUE(absl::StrContains(WhyNot(from, "sgd {} clip_norm: 1"),
                                "optimizer.clip_norm: needs program.samples_per_rank"));
  EXPECT_TRUE(absl::StrContains(WhyNot(from + "exchange: NONE ranks: 1", "sgd {} clip_norm: 1"),
                                "optimizer.clip_norm: needs exchange"));
  EXPECT_EQ(WhyNot("ranks: 1 exchange: RING " + from, "sgd {}"), "");
  EXPECT_EQ(WhyNot("ranks: 1 exchange: RING " + from, "mean {}"), "");
  const std::string nccl = "device: GPU exchange: NCCL " + from;
  EXPECT_EQ(WhyNot(nccl, "adamw {}"), "");
  EXPECT_EQ(WhyNot(nccl, "mean {}"), "");
  EXPECT_EQ(WhyNot(nccl, "sgd {} clip_norm: 1"),
            "optimizer.clip_norm: needs exchange: PARAMETER_SERVER or RING");
  EXPECT_EQ(WhyNot(from + "push { codec: DGC }", "adam {}"),
            "optimizer: adam, but push.codec: DGC has a momentum of its own and needs sgd");
  EXPECT_EQ(WhyNot(from + "push { codec: DGC }", "sgd {}"), "");
  EXPECT_EQ(WhyNot(from, "adam { beta1: 2 }"),
            "optimizer.adam.beta1: 2 is not a number >= 0 and < 1");
}

TEST(ProgramOptimizerTest, OneOfTwoLimitsOfTheNormIsEnough) {
  const std::string fields =
      "program { samples_per_rank: 8 } optimizer { from_program {} clip_norm: 2 }";
  EXPECT_EQ(WhyNot(fields, "sgd {} clip_norm: 3"),
            "optimizer.clip_norm: the job has 2, but the program names 3: set one of them");
  EXPECT_EQ(WhyNot(fields, "sgd {} clip_norm: 2"), "");
}

TEST(ProgramOptimizerTest, ExchangesThatTakeNoRatesAreNamed) {
  proto::Job job = JobOf("optimizer { sgd {} }");
  job.set_exchange(proto::Job::MPI);
  EXPECT_EQ(TakeProgramOptimizer(nullptr, true, &job).message(),
            "exchange: MPI takes learning rates from schedule, but the program says them in each "
            "step");
  EXPECT_TRUE(TakeProgramOptimizer(nullptr, false, &job).ok());
  job.set_exchange(proto::Job::NCCL);
  EXPECT_TRUE(TakeProgramOptimizer(nullptr, true, &job).ok());
}

}  // namespace
}  // namespace strata
