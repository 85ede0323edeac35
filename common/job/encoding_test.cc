#include "common/job/encoding.h"

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job WithEncoding(const std::vector<std::string>& settings) {
  proto::Job job = *ParseJob("name: 'a' model { zoo: 'mlp' } data { synthetic {} }", "minimal");
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job;
}

std::string RefusalOf(const std::vector<std::string>& settings) {
  return std::string(ValidateJob(WithEncoding(settings)).message());
}

TEST(FillEncodings, WritesTheDocumentedValuesWhereTheyMeanSomething) {
  EXPECT_FALSE(WithEncoding({"push.codec=FP16"}).push().has_density());
  const proto::Encoding top_k = WithEncoding({"pull.codec=TOP_K"}).pull();
  EXPECT_EQ(top_k.density(), 0.01f);
  EXPECT_FALSE(top_k.has_momentum());
  const proto::Encoding dgc = WithEncoding({"push.codec=DGC"}).push();
  EXPECT_EQ(dgc.density(), 0.001f);
  EXPECT_EQ(dgc.momentum(), 0.9f);
  EXPECT_EQ(dgc.warmup_epochs(), 4.0f);
  EXPECT_EQ(WithEncoding({"push={codec: DGC warmup_epochs: 0}"}).push().warmup_epochs(), 0.0f);
}

TEST(FillEncodings, DgcMakesPlainSgdTheDefault) {
  EXPECT_TRUE(WithEncoding({"push.codec=DGC"}).optimizer().has_sgd());
  EXPECT_TRUE(WithEncoding({"push.codec=TOP_K"}).optimizer().has_momentum_sgd());
}

TEST(CheckEncodings, EachCodecGoesEitherWayToAndFromServersInEveryMode) {
  for (const char* mode : {"sync", "lazy", "async"}) {
    const std::string consistency = std::string("consistency.") + mode + "={}";
    for (const char* codec : {"FP32", "FP16", "BF16", "INT8", "ONE_BIT", "TOP_K"}) {
      for (const char* way : {"push", "pull"}) {
        EXPECT_EQ(RefusalOf({consistency, std::string(way) + ".codec=" + codec}), "");
      }
    }
    EXPECT_EQ(RefusalOf({consistency, "push.codec=DGC"}), "");
  }
}

TEST(CheckEncodings, RefusesNumbersOutOfRangeAndThoseThatSayNothing) {
  EXPECT_EQ(RefusalOf({"push={codec: TOP_K density: 0.6}"}),
            "push.density: 0.6 is not a number > 0 and <= 0.5");
  EXPECT_EQ(RefusalOf({"pull={codec: TOP_K density: 0}"}),
            "pull.density: 0 is not a number > 0 and <= 0.5");
  EXPECT_EQ(RefusalOf({"push={codec: DGC density: nan}"}),
            "push.density: nan is not a number > 0 and <= 0.5");
  EXPECT_EQ(RefusalOf({"push={codec: DGC momentum: 1}"}),
            "push.momentum: 1 is not a number >= 0 and < 1");
  EXPECT_EQ(RefusalOf({"push={codec: DGC warmup_epochs: -1}"}),
            "push.warmup_epochs: -1 is not a finite number >= 0");
  EXPECT_EQ(RefusalOf({"push={codec: INT8 density: 0.1}"}),
            "push.density: belongs to TOP_K and DGC, not to INT8");
  EXPECT_EQ(RefusalOf({"pull={codec: TOP_K momentum: 0.5}"}),
            "pull.momentum: belongs to DGC, not to TOP_K");
  EXPECT_EQ(RefusalOf({"push={warmup_epochs: 2}"}),
            "push.warmup_epochs: belongs to DGC, not to FP32");
}

TEST(CheckEncodings, RefusesWhatTheExchangeCannotCarry) {
  const std::vector<std::string> ring = {"exchange=RING", "ranks=2"};
  const auto in_ring = [&](const std::string& setting) {
    std::vector<std::string> settings = ring;
    settings.push_back(setting);
    return RefusalOf(settings);
  };
  EXPECT_EQ(in_ring("push.codec=FP32"), "");
  EXPECT_EQ(in_ring("push.codec=FP16"), "");
  EXPECT_EQ(in_ring("push.codec=BF16"), "");
  EXPECT_EQ(in_ring("pull.codec=FP32"), "");
  EXPECT_EQ(in_ring("push.codec=INT8"),
            "push.codec: INT8, but exchange: RING encodes at every hop, so it carries FP32, FP16 "
            "and BF16");
  EXPECT_EQ(in_ring("push.codec=DGC"),
            "push.codec: DGC, but exchange: RING encodes at every hop, so it carries FP32, FP16 "
            "and BF16");
  EXPECT_EQ(in_ring("pull.codec=FP16"),
            "pull.codec: FP16, but with exchange: RING push is for gradients and weights");
  EXPECT_EQ(RefusalOf({"exchange=NONE", "push.codec=FP16"}),
            "push.codec: FP16, but exchange: NONE carries FP32 alone");
  EXPECT_EQ(RefusalOf({"exchange=NONE", "pull.codec=INT8"}),
            "pull.codec: INT8, but exchange: NONE carries FP32 alone");
}

TEST(CheckEncodings, DgcIsForGradientsAndBringsItsOwnMomentum) {
  EXPECT_EQ(RefusalOf({"pull.codec=DGC"}),
            "pull.codec: DGC compresses gradients, but answers carry weights");
  EXPECT_EQ(RefusalOf({"push.codec=DGC", "optimizer.momentum_sgd={}"}),
            "optimizer: momentum_sgd, but push.codec: DGC has a momentum of its own and needs sgd");
  EXPECT_EQ(RefusalOf({"push.codec=DGC", "optimizer.sgd.weight_decay=0.1"}), "");
}

TEST(EncodingName, SaysWhatTravels) {
  EXPECT_EQ(EncodingsName(WithEncoding({})), "");
  EXPECT_EQ(EncodingsName(WithEncoding({"push.codec=FP16"})), "push fp16, pull fp32");
  EXPECT_EQ(EncodingsName(WithEncoding({"push.codec=DGC", "pull={codec: TOP_K density: 0.25}"})),
            "push DGC 0.1 %, pull top-k 25 %");
  EXPECT_EQ(EncodingsName(WithEncoding({"pull.codec=ONE_BIT"})), "push fp32, pull 1-bit");
  EXPECT_EQ(EncodingsName(WithEncoding({"exchange=RING", "ranks=2", "push.codec=BF16"})), "bf16");
}

}  // namespace
}  // namespace strata
