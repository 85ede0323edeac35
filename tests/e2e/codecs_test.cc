// Every codec on the live system: all nodes have the same weights at every step, the traffic is as
// small as expected, and the job learns about as well as with fp32.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

constexpr char kMomentum[] =
    "optimizer { momentum_sgd { weight_decay: 5e-4 } } schedule { base_lr: 0.05 warmup_epochs: 0.5 "
    "cosine { final_lr: 0.001 } }";
constexpr char kSgd[] =
    "optimizer { sgd { weight_decay: 5e-4 } } schedule { base_lr: 0.2 warmup_epochs: 0.5 cosine { "
    "final_lr: 0.001 } }";
// DGC has its own momentum.
constexpr char kDgc[] = "schedule { base_lr: 0.05 warmup_epochs: 0.5 cosine { final_lr: 0.001 } }";

// LeNet-5 on Fashion-MNIST, two nodes, 100 steps of 64 samples each in an epoch.
proto::Job FashionLenet(const std::string& name, const std::string& more) {
  return JobFromText(absl::StrCat("name: '", name, "' model { zoo: 'lenet5' } data { idx { dir: '",
                                  kFashionMnist,
                                  "' } batch_per_rank: 64 limit_train: 12800 } ranks: 2 "
                                  "ranks_per_node: 1 epochs: 2 chunk_elements: 16384 debug { "
                                  "hash_weights: true } ",
                                  more));
}

struct Outcome {
  double accuracy = 0;
  double pushed = 0, answered = 0;  // bytes
};

class Codecs : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster_.Start(), absl::OkStatus()); }

  Outcome Train(const std::string& name, const std::string& more) {
    const proto::JobStatus status = cluster_.RunToEnd(FashionLenet(name, more));
    const auto hashes = Hashes(status.run_dir(), 0);
    EXPECT_EQ(hashes.size(), 201u) << name;
    EXPECT_EQ(hashes, Hashes(status.run_dir(), 1)) << name;
    const auto metrics = Metrics(status.run_dir());
    return {FinalAccuracy(metrics), static_cast<double>(SumField(metrics, "bytes_pushed")),
            static_cast<double>(SumField(metrics, "bytes_answered"))};
  }

  Cluster cluster_{{.servers = 1, .shards = 2, .nodes = 2, .slots = 1}};
};

// The share of fp32's bytes, headers included, and how far the final accuracy may be below fp32's
// with the same optimizer. 200 steps are few for the sparsest codecs.
struct Case {
  const char* codec;
  const char* optimizer;
  double push, pull;
  double band;
};

TEST_F(Codecs, LearnWithinTheirBandOfFp32AndMoveTheirShareOfItsBytes) {
  const std::map<std::string, Outcome> fp32 = {{kMomentum, Train("fp32-momentum", kMomentum)},
                                               {kSgd, Train("fp32-sgd", kSgd)}};
  for (const auto& [optimizer, outcome] : fp32) EXPECT_GT(outcome.accuracy, 0.78) << optimizer;
  const Case cases[] = {
      {"push { codec: FP16 } pull { codec: FP16 }", kMomentum, 0.502, 0.502, 0.02},
      {"push { codec: BF16 } pull { codec: BF16 }", kMomentum, 0.501, 0.501, 0.02},
      {"push { codec: INT8 } pull { codec: INT8 }", kMomentum, 0.253, 0.253, 0.02},
      {"push { codec: TOP_K density: 0.05 } pull { codec: TOP_K density: 0.05 }", kMomentum, 0.102,
       0.102, 0.04},
      {"push { codec: ONE_BIT } pull { codec: INT8 }", kSgd, 0.0343, 0.253, 0.04},
      {"pull { codec: ONE_BIT }", kMomentum, 1, 0.0343, 0.05},
      {"push { codec: DGC density: 0.01 warmup_epochs: 1 }", kDgc, 0.0966, 1, 0.05},
  };
  int number = 0;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.codec);
    const Outcome outcome =
        Train(absl::StrCat("codec-", ++number), absl::StrCat(one.codec, " ", one.optimizer));
    const Outcome& base = fp32.at(one.optimizer == std::string(kSgd) ? kSgd : kMomentum);
    EXPECT_GT(outcome.accuracy, base.accuracy - one.band);
    EXPECT_NEAR(outcome.pushed / base.pushed, one.push, 0.02 * one.push);
    EXPECT_NEAR(outcome.answered / base.answered, one.pull, 0.02 * one.pull);
    RecordProperty(absl::StrCat("accuracy_", number), absl::StrCat(outcome.accuracy));
  }
}

TEST_F(Codecs, InARingTheyMoveHalfTheBytesAndAllNodesHaveTheSameWeights) {
  const Outcome fp32 = Train("ring", absl::StrCat("exchange: RING ", kMomentum));
  for (const char* codec : {"FP16", "BF16"}) {
    const Outcome outcome =
        Train(absl::StrCat("ring-", codec),
              absl::StrCat("exchange: RING push { codec: ", codec, " } ", kMomentum));
    EXPECT_GT(outcome.accuracy, fp32.accuracy - 0.02);
    EXPECT_NEAR(outcome.pushed / fp32.pushed, 0.5, 0.01);
    EXPECT_NEAR(outcome.answered / fp32.answered, 0.5, 0.01);
  }
}

TEST_F(Codecs, InLazyAndAsyncEachNodeIsAnsweredForItselfAndAllEndWithOneModel) {
  for (const char* mode : {"lazy { staleness: 2 }", "async {}"}) {
    const proto::JobStatus status = cluster_.RunToEnd(FashionLenet(
        absl::StrCat("mode-", mode[0] == 'l' ? "lazy" : "async"),
        absl::StrCat("push { codec: INT8 } pull { codec: INT8 } optimizer { sgd {} } schedule { "
                     "base_lr: 0.05 } consistency { ",
                     mode, " }")));
    EXPECT_EQ(Hashes(status.run_dir(), 0).back(), Hashes(status.run_dir(), 1).back()) << mode;
    EXPECT_GT(FinalAccuracy(Metrics(status.run_dir())), 0.7) << mode;
  }
}

TEST_F(Codecs, TheStatusSaysWhatTravels) {
  const proto::JobStatus status = cluster_.RunToEnd(
      FashionLenet("shown", "max_steps: 5 push { codec: TOP_K } pull { codec: BF16 }"));
  const CommandResult shown =
      RunStrata({"status", absl::StrCat(status.job_id()), "--coordinator", cluster_.address()});
  EXPECT_NE(shown.out.find("push top-k 1 %, pull bf16"), std::string::npos) << shown.out;
}

}  // namespace
}  // namespace strata::tests
