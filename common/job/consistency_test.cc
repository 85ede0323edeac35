#include "common/job/consistency.h"

#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job WithConsistency(const std::vector<std::string>& settings) {
  proto::Job job = *ParseJob("name: 'a' model { zoo: 'mlp' } data { synthetic {} }", "minimal");
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job;
}

proto::Consistency Preset(const std::string& name) {
  return WithConsistency({"consistency.preset=" + name}).consistency();
}

std::string Refusal(const std::vector<std::string>& settings) {
  return std::string(ValidateJob(WithConsistency(settings)).message());
}

TEST(Preset, StandsForAModeWithAllItsFields) {
  EXPECT_TRUE(Preset("sync").has_sync());
  EXPECT_TRUE(Preset("async").has_async());
  EXPECT_EQ(Preset("async").async().damping(), proto::Async::NONE);
  EXPECT_EQ(Preset("async_damped").async().damping(), proto::Async::INVERSE_STALENESS);
  const proto::DelayCompensation how = Preset("async_dc").async().delay_compensation();
  EXPECT_EQ(how.lambda(), 0.04f);
  EXPECT_FALSE(how.adaptive());
  EXPECT_EQ(Preset("significance").lazy().local_steps(), 1);
  EXPECT_EQ(Preset("significance").lazy().significance().threshold(), 0.01f);
  EXPECT_EQ(Preset("easgd").async().elastic().every_steps(), 10);
  EXPECT_EQ(Preset("easgd").async().elastic().moving_rate(), 0.9f);
  EXPECT_EQ(Preset("ssp(0)").lazy().staleness(), 0);
  const proto::Lazy ssp = Preset("ssp(1024)").lazy();
  EXPECT_EQ(ssp.staleness(), 1024);
  EXPECT_EQ(ssp.apply(), proto::Lazy::PER_CLOCK);
  const proto::Lazy delay = Preset("delay1").lazy();
  EXPECT_TRUE(delay.double_buffering());
  EXPECT_EQ(delay.staleness(), 0);
  const proto::Lazy local = Preset("local(8)").lazy();
  EXPECT_EQ(local.local_steps(), 8);
  EXPECT_EQ(local.staleness(), 0);
  EXPECT_EQ(local.outer().lr(), 1.0f);
  EXPECT_EQ(local.outer().momentum(), 0.0f);
  const proto::Lazy diloco = Preset("diloco(500)").lazy();
  EXPECT_EQ(diloco.local_steps(), 500);
  EXPECT_EQ(diloco.outer().lr(), 0.7f);
  EXPECT_EQ(diloco.outer().momentum(), 0.9f);
  const proto::Lazy quorum = Preset("quorum(3)").lazy();
  EXPECT_EQ(quorum.quorum().nodes(), 3);
  EXPECT_EQ(quorum.quorum().grace_ms(), 0);
  EXPECT_EQ(quorum.staleness(), 0);
}

TEST(Preset, WhatIsNotOneIsNamed) {
  for (const auto& [name, why] : std::vector<std::pair<std::string, std::string>>{
           {"asink",
            "\"asink\" is not one of sync, delay1, ssp(s), local(H), diloco(H), quorum(K), "
            "async, async_damped, async_dc, easgd, significance"},
           {"quorum", "\"quorum\" wants its nodes, as in \"quorum(4)\""},
           {"quorum(0)", "\"quorum(0)\": nodes is not in 1 to 1024"},
           {"ssp", "\"ssp\" wants its staleness, as in \"ssp(3)\""},
           {"local", "\"local\" wants its local steps, as in \"local(4)\""},
           {"ssp(1025)", "\"ssp(1025)\": staleness is not in 0 to 1024"},
           {"diloco(0)", "\"diloco(0)\": local steps is not in 1 to 65536"},
           {"async(2)", "\"async(2)\": async takes no number"},
           {"spp(3)",
            "\"spp(3)\" is not one of sync, delay1, ssp(s), local(H), diloco(H), quorum(K), "
            "async, async_damped, async_dc, easgd, significance"},
           {"ssp(x)", "\"ssp(x)\" is not NAME or NAME(NUMBER)"},
           {"ssp(-1)", "\"ssp(-1)\" is not NAME or NAME(NUMBER)"},
           {"ssp(3", "\"ssp(3\" is not NAME or NAME(NUMBER)"},
           {"ssp(", "\"ssp(\" is not NAME or NAME(NUMBER)"}}) {
    EXPECT_EQ(Refusal({"consistency.preset=\"" + name + "\""}), "consistency.preset: " + why);
  }
}

TEST(Preset, OfWhatItStandsForFieldsMayBeSet) {
  const proto::Lazy lazy =
      WithConsistency({"consistency.preset=diloco(8)", "consistency.lazy.outer.lr=0.5"})
          .consistency()
          .lazy();
  EXPECT_EQ(lazy.local_steps(), 8);
  EXPECT_EQ(lazy.outer().lr(), 0.5f);
  EXPECT_EQ(lazy.outer().momentum(), 0.9f);
}

TEST(FillConsistency, LocalStepsAndDoubleBufferingAreInStepUnlessToldOtherwise) {
  EXPECT_EQ(WithConsistency({"consistency.lazy={}"}).consistency().lazy().staleness(), 2);
  EXPECT_EQ(WithConsistency({"consistency.lazy={local_steps: 2}"}).consistency().lazy().staleness(),
            0);
  EXPECT_EQ(WithConsistency({"consistency.lazy={local_steps: 2 staleness: 3}"})
                .consistency()
                .lazy()
                .staleness(),
            3);
  const proto::Job job =
      WithConsistency({"consistency.lazy={local_steps: 2 outer { momentum: 0.5 }}"});
  EXPECT_EQ(job.consistency().lazy().outer().lr(), 0.7f);
}

TEST(CheckConsistency, NamesWhatDoesNotGoTogether) {
  for (const auto& [settings, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"consistency.lazy={outer {}}"}, "consistency.lazy.outer: belongs to local_steps"},
           {{"consistency.lazy={local_steps: 65537}"},
            "consistency.lazy.local_steps: 65537 is not in 0 to 65536"},
           {{"consistency.lazy={local_steps: 2 outer { lr: 0 }}"},
            "consistency.lazy.outer.lr: 0 is not a finite number > 0"},
           {{"consistency.lazy={local_steps: 2 outer { momentum: 1 }}"},
            "consistency.lazy.outer.momentum: 1 is not a number >= 0 and < 1"},
           {{"consistency.lazy={local_steps: 2 double_buffering: true}"},
            "consistency.lazy.double_buffering: goes with gradients of every step, not with "
            "local_steps: 2"},
           {{"consistency.lazy={staleness: 1 double_buffering: true}"},
            "consistency.lazy.double_buffering: needs staleness: 0 and apply: PER_CLOCK"},
           {{"consistency.lazy={apply: ON_ARRIVAL double_buffering: true}"},
            "consistency.lazy.double_buffering: needs staleness: 0 and apply: PER_CLOCK"},
           {{"consistency.async.delay_compensation.lambda=0"},
            "consistency.async.delay_compensation.lambda: 0 is not a finite number > 0"},
           {{"consistency.async.delay_compensation.decay=1"},
            "consistency.async.delay_compensation.decay: 1 is not a number >= 0 and < 1"},
           {{"consistency.preset=local(2)", "push.codec=DGC", "optimizer.sgd={}"},
            "push.codec: DGC compresses gradients, but local_steps push changes of weights"},
           {{"consistency.preset=delay1", "exchange=NONE"},
            "consistency: double buffering, but exchange: NONE exchanges nothing"},
           {{"consistency.preset=ssp(1)", "exchange=RING", "ranks=2"},
            "consistency: exchange: RING is sync, lazy(1) needs servers"}}) {
    EXPECT_EQ(Refusal(settings), why);
  }
}

TEST(CheckConsistency, NamesWhatDoesNotGoWithElasticAveraging) {
  for (const auto& [settings, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"consistency.async={elastic {} damping: INVERSE_STALENESS}"},
            "consistency.async.elastic: exchanges weights, but damping and delay_compensation are "
            "for gradients"},
           {{"consistency.async.elastic.moving_rate=-1"},
            "consistency.async.elastic.moving_rate: -1 is not a finite number > 0"},
           {{"consistency.async.elastic.every_steps=65537"},
            "consistency.async.elastic.every_steps: 65537 is not in 1 to 65536"},
           {{"consistency.async.elastic.moving_rate=2", "ranks=2"},
            "consistency.async.elastic.moving_rate: 2, but divided by at most 2 nodes it must be "
            "below 1"},
           {{"consistency.preset=easgd", "push.codec=FP16"},
            "push.codec: FP16, but consistency.async.elastic exchanges whole weights, as FP32"},
           {{"consistency.preset=easgd", "pull.codec=INT8"},
            "pull.codec: INT8, but consistency.async.elastic exchanges whole weights, as FP32"},
           {{"consistency.preset=easgd", "exchange=NONE"},
            "consistency: async(elastic every 10 steps, moving rate 0.9), but exchange: NONE "
            "exchanges nothing"}}) {
    EXPECT_EQ(Refusal(settings), why);
  }
}

TEST(CheckConsistency, NamesWhatDoesNotGoWithSignificance) {
  for (const auto& [settings, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"consistency.lazy={significance {}}"},
            "consistency.lazy.significance: belongs to local_steps"},
           {{"consistency.lazy={local_steps: 1 significance { threshold: 0 }}"},
            "consistency.lazy.significance.threshold: 0 is not a finite number > 0"},
           {{"consistency.preset=significance", "push.codec=INT8"},
            "push.codec: INT8, but consistency.lazy.significance chooses what is pushed, as FP32"},
           {{"consistency.preset=significance", "exchange=RING", "ranks=2"},
            "consistency.lazy.significance: needs servers, exchange: RING adds whole slices"}}) {
    EXPECT_EQ(Refusal(settings), why);
  }
  EXPECT_EQ(Refusal({"consistency.preset=significance", "pull.codec=INT8"}), "");
}

TEST(CheckConsistency, NamesWhatDoesNotGoWithAQuorum) {
  for (const auto& [settings, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"consistency.lazy={quorum {}}"}, "consistency.lazy.quorum.nodes: is required"},
           {{"consistency.lazy={quorum { nodes: 3 grace_ms: 60001 }}"},
            "consistency.lazy.quorum.grace_ms: 60001 is not in 0 to 60000"},
           {{"consistency.lazy={quorum { nodes: 3 } staleness: 1}"},
            "consistency.lazy.quorum: needs staleness: 0 and apply: PER_CLOCK, without "
            "double_buffering"},
           {{"consistency.lazy={quorum { nodes: 3 } apply: ON_ARRIVAL}"},
            "consistency.lazy.quorum: needs staleness: 0 and apply: PER_CLOCK, without "
            "double_buffering"},
           {{"consistency.lazy={quorum { nodes: 3 } double_buffering: true}"},
            "consistency.lazy.quorum: needs staleness: 0 and apply: PER_CLOCK, without "
            "double_buffering"},
           {{"consistency.preset=quorum(3)", "ranks=2"},
            "consistency.lazy.quorum.nodes: 3, but the job has no more than 2 nodes"},
           {{"consistency.preset=quorum(3)", "ranks=4", "ranks_per_node=2"},
            "consistency.lazy.quorum.nodes: 3, but the job has no more than 2 nodes"},
           {{"consistency.preset=quorum(1)", "ranks=2", "order=RING"},
            "order: RING adds the gradients of all nodes, but a quorum goes on without some"},
           {{"consistency.preset=quorum(1)", "exchange=NONE"},
            "consistency: lazy(0, quorum 1), but exchange: NONE exchanges nothing"},
           {{"consistency.preset=quorum(2)", "exchange=RING", "ranks=2"},
            "consistency: exchange: RING is sync, lazy(0, quorum 2) needs servers"}}) {
    EXPECT_EQ(Refusal(settings), why);
  }
}

TEST(CheckConsistency, WhatKeepsNodesInStepGoesWithARing) {
  for (const char* preset : {"delay1", "ssp(0)", "local(4)", "diloco(4)"}) {
    EXPECT_EQ(Refusal({std::string("consistency.preset=") + preset, "exchange=RING", "ranks=2"}),
              "");
  }
}

TEST(ModeName, SaysModeAndWhatIsSpecialAboutIt) {
  const auto name = [](const char* setting) {
    return ModeName(WithConsistency({setting}).consistency());
  };
  EXPECT_EQ(name("consistency.sync={}"), "sync");
  EXPECT_EQ(name("consistency.lazy={}"), "lazy(2)");
  EXPECT_EQ(name("consistency.lazy={staleness: 0 apply: ON_ARRIVAL}"), "lazy(0, on arrival)");
  EXPECT_EQ(name("consistency.preset=delay1"), "double buffering");
  EXPECT_EQ(name("consistency.preset=quorum(3)"), "lazy(0, quorum 3)");
  EXPECT_EQ(name("consistency.lazy={local_steps: 4 quorum { nodes: 2 grace_ms: 5 }}"),
            "lazy(0, 4 local steps, outer 1, quorum 2 and 5 ms)");
  EXPECT_EQ(name("consistency.preset=local(8)"), "lazy(0, 8 local steps, outer 1)");
  EXPECT_EQ(name("consistency.preset=diloco(16)"),
            "lazy(0, 16 local steps, outer 0.7, momentum 0.9)");
  EXPECT_EQ(name("consistency.async={}"), "async");
  EXPECT_EQ(name("consistency.async.damping=INVERSE_STALENESS"), "async(inverse staleness)");
  EXPECT_EQ(name("consistency.preset=async_dc"), "async(delay compensation 0.04)");
  EXPECT_EQ(name("consistency.async={damping: INVERSE_STALENESS delay_compensation { adaptive: "
                 "true }}"),
            "async(inverse staleness, adaptive delay compensation 2)");
}

TEST(ShownModeName, IsThePresetsAsLongAsTheModeIsWhatItStandsFor) {
  const auto name = [](const std::vector<std::string>& settings) {
    return ShownModeName(WithConsistency(settings).consistency());
  };
  EXPECT_EQ(name({"consistency.preset=diloco(16)"}), "diloco(16)");
  EXPECT_EQ(name({"consistency.lazy={staleness: 3}", "consistency.preset_name=\"ssp(3)\""}),
            "ssp(3)");
  EXPECT_EQ(name({"consistency.preset=ssp(3)", "consistency.lazy.apply=ON_ARRIVAL"}),
            "lazy(3, on arrival)");
  EXPECT_EQ(name({"consistency.preset=ssp(3)", "consistency.sync={}"}), "sync");
  EXPECT_EQ(name({"consistency.lazy={staleness: 3}"}), "lazy(3)");
  EXPECT_EQ(name({"consistency.preset_name=\"none such\""}), "sync");
}

TEST(ShownModeName, NamesTheModeOfRowsWhereItIsAnother) {
  const auto name = [](const std::vector<std::string>& settings) {
    return ShownModeName(WithConsistency(settings));
  };
  EXPECT_EQ(name({"rows.consistency.preset=async"}), "sync, rows async");
  EXPECT_EQ(name({"rows.consistency={lazy { staleness: 3 }}"}), "sync, rows lazy(3)");
  EXPECT_EQ(name({"consistency.preset=async", "rows.consistency.preset=async"}), "async");
  EXPECT_EQ(name({"consistency.preset=async", "rows.buckets=8"}), "async");
}

TEST(PresetOfMode, IsWithoutItsKindAndNoneOfWhatIsNoPreset) {
  EXPECT_EQ(PresetOfMode("ssp(3)"), "ssp(3)");
  EXPECT_EQ(PresetOfMode("lazy:quorum(2)"), "quorum(2)");
  EXPECT_EQ(PresetOfMode("ring"), "");
  EXPECT_EQ(PresetOfMode("lazy"), "");
}

TEST(ProgramStepsPerStep, AreTheLocalStepsThatRanksTakeByThemselves) {
  EXPECT_EQ(
      ProgramStepsPerStep(WithConsistency({"consistency.preset=local(8)", "optimizer.mean={}"})),
      8u);
  EXPECT_EQ(
      ProgramStepsPerStep(WithConsistency({"consistency.preset=local(8)", "optimizer.sgd={}"})),
      1u);
  EXPECT_EQ(ProgramStepsPerStep(WithConsistency({"consistency.sync={}", "optimizer.mean={}"})), 1u);
}

TEST(SharedOptimizer, IsTheOuterOneWithLocalSteps) {
  const proto::Job plain = WithConsistency({"optimizer.adam={}", "schedule.base_lr=0.3"});
  EXPECT_EQ(SharedOptimizer(plain).kind, OptimizerKind::kAdam);
  EXPECT_EQ(SharedSchedule(plain).base_lr(), 0.3f);
  EXPECT_EQ(StepsPerClock(plain), 1u);
  const proto::Job local =
      WithConsistency({"optimizer.adam={}", "schedule.cosine={}", "consistency.preset=local(8)"});
  EXPECT_EQ(SharedOptimizer(local).kind, OptimizerKind::kSgd);
  EXPECT_EQ(SharedSchedule(local).base_lr(), 1.0f);
  EXPECT_TRUE(SharedSchedule(local).has_constant());
  EXPECT_EQ(StepsPerClock(local), 8u);
  const proto::Job elastic = WithConsistency({"optimizer.adam={}", "consistency.preset=easgd"});
  EXPECT_EQ(SharedOptimizer(elastic).kind, OptimizerKind::kSgd);
  EXPECT_EQ(SharedSchedule(elastic).base_lr(), 0.9f);
  EXPECT_EQ(StepsPerClock(elastic), 10u);
  const proto::Job diloco =
      WithConsistency({"optimizer.adamw={}", "consistency.preset=diloco(16)"});
  EXPECT_EQ(SharedOptimizer(diloco).kind, OptimizerKind::kNesterov);
  EXPECT_EQ(SharedOptimizer(diloco).momentum, 0.9f);
  EXPECT_EQ(SharedOptimizer(diloco).weight_decay, 0.0f);
}

proto::Job JobWith(const std::string& text) {
  absl::StatusOr<proto::Job> job =
      ParseJob("checkpoint { dir: '/c' every_steps: 10 } " + text, "test");
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return {};
  FillDefaults(&*job);
  return *job;
}

TEST(KeptStateTest, NodesKeepWhatPushesLeaveOutAndWeightsOfTheirOwn) {
  for (const char* plain :
       {"", "consistency { async {} }", "exchange: RING", "exchange: RING push { codec: BF16 }",
        "pull { codec: INT8 }", "ranks_max: 4 push { codec: INT8 }"}) {
    EXPECT_FALSE(NodesKeepState(JobWith(plain))) << plain;
  }
  for (const char* own : {"push { codec: INT8 }", "consistency { preset: 'local(4)' }",
                          "consistency { preset: 'diloco(4)' }", "consistency { preset: 'easgd' }",
                          "consistency { preset: 'delay1' }", "optimizer { clip_norm: 1 }",
                          "exchange: RING optimizer { clip_norm: 1 }"}) {
    EXPECT_TRUE(NodesKeepState(JobWith(own))) << own;
  }
}

TEST(KeptStateTest, CheckpointsAreCutAfterWholeRounds) {
  EXPECT_EQ(ClocksPerCheckpoint(JobWith("")), 10);
  EXPECT_EQ(ClocksPerCheckpoint(JobWith("consistency { preset: 'local(5)' }")), 2);
  EXPECT_EQ(ClocksPerCheckpoint(JobWith("consistency { preset: 'local(4)' }")), 3);
  EXPECT_EQ(ClocksPerCheckpoint(proto::Job()), 0);
}

}  // namespace
}  // namespace strata
