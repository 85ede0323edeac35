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

// Returns the error when the program of such a job names `text`.
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

TEST(ProgramOptimizerTest, AScheduleIsRefusedWhereTheProgramSaysTheRates) {
  const std::string rate = "schedule { base_lr: 0.1 } ";
  const std::string said =
      "schedule: the program says the learning rate of each step, so it has no effect: take it out "
      "of the job: set it in the program, and to vary it give the program an argument: "
      "program.args=--NAME=V1,--NAME=V2";
  EXPECT_EQ(WhyNot(rate + kFromProgram, "sgd {}", true), said);
  EXPECT_EQ(WhyNot(rate + "optimizer { sgd {} }", "sgd {}", true), said);
  EXPECT_TRUE(SaysProgramDecides("job 1: " + said));
  EXPECT_TRUE(SaysProgramDecides(WhyNot(rate + kFromProgram, "mean {}")));
  EXPECT_TRUE(SaysProgramDecides(WhyNot("optimizer { adamw {} }", "sgd {}")));
  EXPECT_FALSE(SaysProgramDecides("rank 0: loss is NaN at step 3"));
  // It is used if the program leaves rates to it; the default was not chosen by anybody.
  EXPECT_EQ(WhyNot(rate + kFromProgram, "sgd {}"), "");
  EXPECT_EQ(WhyNot("schedule { base_lr: 0.05 } " + std::string(kFromProgram), "sgd {}", true), "");
}

// Returns why such a job of a program is refused as written, with these settings.
std::string Unread(const std::string& fields, const std::vector<std::string>& settings = {}) {
  proto::Job job = *ParseJob("name: 'a' " + fields, "job");
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  return std::string(CheckProgramReads(/*is_of_program=*/true, settings, job).message());
}

TEST(ProgramOptimizerTest, FieldsThatAProgramDoesNotReadAreNamed) {
  const std::string linked = "program { path: 'bin/train' } ";
  EXPECT_EQ(Unread(linked + "max_steps: 3"),
            "max_steps: belongs to model, a program ends when it likes");
  EXPECT_EQ(Unread(linked + "evaluation { every_steps: 3 }"),
            "evaluation: belongs to model, a program measures when it likes");
  EXPECT_EQ(Unread(linked + "debug { hash_weights: true }"),
            "debug.hash_weights: belongs to model");
  EXPECT_EQ(Unread(linked + "debug { nan_rank: 0 }"), "debug.nan_rank: belongs to model");
  const std::string schedule = "schedule { base_lr: 0.1 } ";
  EXPECT_EQ(Unread(linked + schedule + "optimizer { mean {} }").substr(0, 55),
            "schedule: ranks apply the optimizer (optimizer.mean): s");
  const std::string script = "program { path: 'python3' args: '/a/train.py' } ";
  EXPECT_EQ(Unread(script + schedule + kFromProgram).substr(0, 55),
            "schedule: the script has an optimizer of its own: set i");
  for (const std::string field : {"max_steps=0", "evaluation.every_epochs=1", "epochs=1",
                                  "debug.nan_step=0", "data.limit_train=1", "model.zoo=mlp"}) {
    EXPECT_EQ(Unread(linked, {field}).substr(0, field.find('=')), field.substr(0, field.find('=')));
  }
}

TEST(ProgramOptimizerTest, FieldsThatAProgramReadsMayBeSet) {
  const std::string linked = "program { path: 'bin/train' } ";
  EXPECT_EQ(Unread(linked, {"schedule.base_lr=0.1", "optimizer.sgd={}", "metrics.every_steps=5"}),
            "");
  // It may leave rates to the schedule; a script takes them from its own optimizer.
  EXPECT_EQ(Unread(linked + kFromProgram, {"schedule.base_lr=0.1"}), "");
  EXPECT_EQ(Unread("program { path: 'train.py' } optimizer { sgd {} }", {"schedule.base_lr=0.1"}),
            "");
  EXPECT_EQ(Unread(linked, {"epochs=9", "schedule.cosine={}"}), "");
  EXPECT_EQ(Unread(linked + "epochs: 9"), "");  // for the shown progress
  // A job printed with all defaults is a job.
  proto::Job job = JobOf(kFromProgram);
  job.mutable_program()->set_path("train.py");
  EXPECT_EQ(CheckProgramReads(true, {}, job), absl::OkStatus());
  EXPECT_EQ(CheckProgramReads(false, {"epochs=2"}, proto::Job()), absl::OkStatus());
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

TEST(ProgramOptimizerTest, SamplesThatTheProgramSaysAreTakenWhereTheJobNeedsThemAndSaysNone) {
  const auto taken = [](const std::string& fields, const std::string& text) {
    proto::Job job = JobOf(fields);
    const proto::Optimizer named = *ParseOptimizer(text);
    TakeProgramSamples(8, &named, &job);
    EXPECT_EQ(TakeProgramOptimizer(&named, true, &job), absl::OkStatus());
    return job.program().samples_per_rank();
  };
  const std::string from = kFromProgram;
  EXPECT_EQ(taken(from, "sgd {} clip_norm: 1"), 8u);
  EXPECT_EQ(taken(from, "lars {}"), 8u);
  EXPECT_EQ(taken("optimizer { from_program {} clip_norm: 1 }", "sgd {}"), 8u);
  EXPECT_EQ(taken("program { samples_per_rank: 2 } " + from, "sgd {} clip_norm: 1"), 2u);
  EXPECT_EQ(taken(from, "sgd {}"), 0u);  // any number is fine
  EXPECT_EQ(taken(from + "consistency { async {} }", "sgd {} clip_norm: 1"), 0u);
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
