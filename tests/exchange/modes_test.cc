#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/exchange/node_cluster.h"

// Modes whose results depend on timing: they must finish and keep their bounds.

namespace strata::tests {
namespace {

using client::Client;

constexpr int kModesSteps = 40;

// w starts at 8 and is drawn to 0 by g = w, a sample each. Returns the largest |w| at the end.
absl::Status Shrink(Client* client, uint64_t elements, std::atomic<float>* largest) {
  client::Tensor tensor;
  tensor.name = "w";
  tensor.shape = {elements};
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (float& w : client->Weights(0)) w = 8.0f;
  if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) return status;
  for (int step = 0; step < kModesSteps; ++step) {
    if (absl::Status status = client->BeginStep(1); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    for (size_t i = 0; i < elements; ++i) client->Gradients(0)[i] = client->Weights(0)[i];
    if (absl::Status status = client->Publish(0); !status.ok()) return status;
    if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  }
  if (absl::Status status = client->Finish(); !status.ok()) return status;
  const absl::Span<const float> weights = *client->ReadWeights();
  for (float w : weights) *largest = std::max(largest->load(), std::abs(w));
  return absl::OkStatus();
}

void ExpectConverges(const std::string& mode, uint64_t elements = 3000,
                     uint32_t chunk_elements = 256, uint64_t clocks = kModesSteps) {
  proto::Job job;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'm' epochs: 1 window: 2 program { path: 'none' } "
      "optimizer { sgd {} } schedule { base_lr: 0.2 } consistency { " +
          mode + " }",
      &job));
  job.set_chunk_elements(chunk_elements);
  NodeCluster cluster({3, 2, 2}, job, elements, 100);
  std::atomic<float> largest = 0;
  absl::Status status =
      cluster.Run([&](Client* client) { return Shrink(client, elements, &largest); });
  EXPECT_TRUE(status.ok()) << mode << ": " << status;
  EXPECT_LT(largest.load(), 0.2f) << mode;
  uint64_t pushes = 0;
  for (uint64_t shard : cluster.Pushes()) pushes += shard;
  const uint64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
  EXPECT_EQ(pushes, 3 * chunks * clocks) << mode;  // nodes x chunks x clocks, each once
}

TEST(ModesTest, EveryModeTrainsToTheEndAndCountsEachPushOnce) {
  ExpectConverges("sync {}");
  ExpectConverges("lazy { staleness: 2 }");
  ExpectConverges("lazy { staleness: 1 apply: ON_ARRIVAL }");
  ExpectConverges("async {}");
  ExpectConverges("async { damping: INVERSE_STALENESS }");
  ExpectConverges("preset: 'delay1'");
}

TEST(ModesTest, LocalStepsPushOncePerRoundAndOnceMoreForWhatIsLeft) {
  ExpectConverges("preset: 'local(8)'", 3000, 256, 5);
  ExpectConverges("preset: 'local(6)'", 3000, 256, 7);
  // Rounds so short that the weights shrink enough even if every answer is as stale as allowed.
  ExpectConverges("lazy { staleness: 2 local_steps: 1 }", 3000, 256, 40);
  ExpectConverges("lazy { staleness: 1 apply: ON_ARRIVAL local_steps: 2 }", 3000, 256, 20);
}

TEST(ModesTest, AQuorumCountsEveryPushOnceAlsoThoseThatAreLate) {
  ExpectConverges("preset: 'quorum(2)'");
  ExpectConverges("lazy { quorum { nodes: 2 grace_ms: 1 } }");
  ExpectConverges("lazy { local_steps: 2 quorum { nodes: 2 } }", 3000, 256, 20);
}

TEST(ModesTest, ElasticNodesMeetTheCenterOncePerRoundAndOnceMoreForWhatIsLeft) {
  ExpectConverges("async { elastic { every_steps: 3 moving_rate: 1.5 } }", 3000, 256, 14);
}

TEST(ModesTest, AModelSmallerThanTheSmallestChunkIsOneChunkOnOneOfTheShards) {
  ExpectConverges("sync {}", 9, 9);
}

// Modes whose weights follow from a formula, step by step: real nodes and shards against plain
// loops in double. The problem: rank r's samples draw each weight to a target of its own.

using Vector = std::vector<double>;

constexpr uint32_t kFormulasNodes = 3, kFormulasRanks = 2, kFormulasElements = 600,
                   kFormulasSteps = 23, kSamples = 4;
constexpr double kLr = 0.1, kFormulasMomentum = 0.5, kFirst = 3.0;
// Single precision over kFormulasSteps updates.
constexpr double kTolerance = 2e-5;

double Target(uint32_t rank, uint32_t i) { return std::sin(1.0 + 7 * rank + 0.01 * i); }

// Returns the mean over node n's ranks of their gradients at x.
Vector MeanGradient(uint32_t node, const Vector& x) {
  Vector g(kFormulasElements, 0.0);
  for (uint32_t r = 0; r < kFormulasRanks; ++r) {
    for (uint32_t i = 0; i < kFormulasElements; ++i) {
      g[i] += (x[i] - Target(node * kFormulasRanks + r, i)) / kFormulasRanks;
    }
  }
  return g;
}

// w(t) of every node before each step, and after the last one.
using FormulasHistory = std::vector<std::vector<Vector>>;  // by node, then step

// Momentum SGD, as in job.proto.
struct Momentum {
  Vector v = Vector(kFormulasElements, 0.0);
  void Update(const Vector& g, Vector* w) {
    for (uint32_t i = 0; i < kFormulasElements; ++i) {
      v[i] = kFormulasMomentum * v[i] + g[i];
      (*w)[i] -= kLr * v[i];
    }
  }
};

Vector Clipped(const Vector& g, double limit);

// `clip`: of each node's gradients; 0: none.
FormulasHistory LocalSteps(uint32_t steps, double outer_lr, double outer_momentum,
                           double clip = 0) {
  FormulasHistory history(kFormulasNodes);
  std::vector<Vector> x(kFormulasNodes, Vector(kFormulasElements, kFirst));
  std::vector<Momentum> inner(kFormulasNodes);
  Vector w(kFormulasElements, kFirst), b(kFormulasElements, 0.0);
  for (uint32_t t = 0; t < kFormulasSteps; ++t) {
    for (uint32_t n = 0; n < kFormulasNodes; ++n) {
      history[n].push_back(x[n]);
      const Vector g = MeanGradient(n, x[n]);
      inner[n].Update(clip > 0 ? Clipped(g, clip) : g, &x[n]);
    }
    if ((t + 1) % steps != 0 && t + 1 != kFormulasSteps) continue;
    for (uint32_t i = 0; i < kFormulasElements; ++i) {
      double change = 0;
      for (uint32_t n = 0; n < kFormulasNodes; ++n) change += (w[i] - x[n][i]) / kFormulasNodes;
      b[i] = outer_momentum * b[i] + change;
      w[i] -= outer_lr * (change + outer_momentum * b[i]);
    }
    for (Vector& one : x) one = w;
  }
  for (auto& of_node : history) of_node.push_back(w);
  return history;
}

// Like LocalSteps(steps, 1, 0), but changes smaller than a share of the weight stay with the node.
FormulasHistory Significance(uint32_t steps, double threshold) {
  FormulasHistory history(kFormulasNodes);
  std::vector<Vector> x(kFormulasNodes, Vector(kFormulasElements, kFirst));
  std::vector<Momentum> inner(kFormulasNodes);
  Vector w(kFormulasElements, kFirst);
  for (uint32_t t = 0; t < kFormulasSteps; ++t) {
    for (uint32_t n = 0; n < kFormulasNodes; ++n) {
      history[n].push_back(x[n]);
      inner[n].Update(MeanGradient(n, x[n]), &x[n]);
    }
    const bool is_last = t + 1 == kFormulasSteps;
    if ((t + 1) % steps != 0 && !is_last) continue;
    const double limit = threshold / std::sqrt(t / steps + 1.0);
    Vector change(kFormulasElements, 0.0);
    for (uint32_t n = 0; n < kFormulasNodes; ++n) {
      // By chunk of 256; the whole chunk if more than half is significant.
      for (uint32_t begin = 0; begin < kFormulasElements; begin += 256) {
        const uint32_t end = std::min(kFormulasElements, begin + 256);
        const auto is_significant = [&](uint32_t i) {
          return std::abs(w[i] - x[n][i]) > limit * std::abs(w[i]);
        };
        uint32_t count = 0;
        for (uint32_t i = begin; i < end; ++i) count += is_significant(i) ? 1 : 0;
        const bool all = is_last || count > (end - begin - 1) / 2;
        for (uint32_t i = begin; i < end; ++i) {
          const double u = w[i] - x[n][i];
          const bool is_sent = all || is_significant(i);
          change[i] += is_sent ? u / kFormulasNodes : 0;
          x[n][i] = is_sent ? 0 : -u;  // besides the answer
        }
      }
    }
    for (uint32_t i = 0; i < kFormulasElements; ++i) w[i] -= change[i];
    for (Vector& one : x) {
      for (uint32_t i = 0; i < kFormulasElements; ++i) one[i] += w[i];
    }
  }
  for (auto& of_node : history) of_node.push_back(w);
  return history;
}

using Change = std::function<Vector(const Vector& g, const Vector& w)>;
Vector AsItIs(const Vector& g, const Vector& /*w*/) { return g; }

// `change` modifies each mean gradient before the optimizer gets it.
FormulasHistory DoubleBuffering(const Change& change = AsItIs) {
  FormulasHistory history(kFormulasNodes);
  Vector w(kFormulasElements, kFirst), before;
  Momentum optimizer;
  for (uint32_t t = 0; t < kFormulasSteps; ++t) {
    Vector g(kFormulasElements, 0.0);
    for (uint32_t n = 0; n < kFormulasNodes; ++n) {
      history[n].push_back(w);
      const Vector own = MeanGradient(n, w);
      for (uint32_t i = 0; i < kFormulasElements; ++i) g[i] += own[i] / kFormulasNodes;
    }
    if (!before.empty()) optimizer.Update(change(before, w), &w);
    before = g;
  }
  optimizer.Update(change(before, w), &w);
  for (auto& of_node : history) of_node.push_back(w);
  return history;
}

double Norm(const Vector& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

// An optimizer: the update, given the total number of applied samples.
using Optimizer = std::function<void(const Vector& g, uint32_t samples, Vector* w)>;

// Sync, and its result with a quorum of all nodes.
FormulasHistory SyncWith(const Optimizer& optimizer, uint32_t nodes = kFormulasNodes) {
  FormulasHistory history(kFormulasNodes);
  Vector w(kFormulasElements, kFirst);
  for (uint32_t t = 0; t <= kFormulasSteps; ++t) {
    Vector g(kFormulasElements, 0.0);
    for (uint32_t n = 0; n < nodes; ++n) {
      history[n].push_back(w);
      const Vector own = MeanGradient(n, w);
      for (uint32_t i = 0; i < kFormulasElements; ++i) g[i] += own[i] / nodes;
    }
    optimizer(g, (t + 1) * nodes * kFormulasRanks * kSamples, &w);
  }
  return history;
}

FormulasHistory Sync(const Change& change = AsItIs, uint32_t nodes = kFormulasNodes) {
  Momentum momentum;
  return SyncWith([&](const Vector& g, uint32_t, Vector* w) { momentum.Update(change(g, *w), w); },
                  nodes);
}

// One node's weights x and the center c at the end.
FormulasHistory Elastic(uint32_t steps, double moving_rate) {
  FormulasHistory history(kFormulasNodes);
  Vector x(kFormulasElements, kFirst), c = x;
  Momentum inner;
  for (uint32_t t = 0; t < kFormulasSteps; ++t) {
    history[0].push_back(x);
    inner.Update(MeanGradient(0, x), &x);
    if ((t + 1) % steps != 0 && t + 1 != kFormulasSteps) continue;
    for (uint32_t i = 0; i < kFormulasElements; ++i) {
      const double e = moving_rate * (x[i] - c[i]);
      c[i] += e;
      x[i] -= e;
    }
  }
  history[0].push_back(c);
  return history;
}

Vector Scaled(const Vector& x, double by) {
  Vector scaled = x;
  for (double& value : scaled) value *= by;
  return scaled;
}

Vector Clipped(const Vector& g, double limit) { return Scaled(g, std::min(1.0, limit / Norm(g))); }
Change Clip(double limit) {
  return [=](const Vector& g, const Vector&) { return Clipped(g, limit); };
}

Change Lars(double coefficient, double decay) {
  return [=](const Vector& g, const Vector& w) {
    const double trust = coefficient * Norm(w) / (Norm(g) + decay * Norm(w) + 1e-8);
    Vector step(kFormulasElements);
    for (uint32_t i = 0; i < kFormulasElements; ++i) step[i] = trust * (g[i] + decay * w[i]);
    return step;
  };
}

class Recorder {
 public:
  absl::Status Train(Client* client) {
    client::Tensor tensor;
    tensor.name = "w";
    tensor.shape = {kFormulasElements};
    if (auto index = client->Register(tensor); !index.ok()) return index.status();
    if (absl::Status status = client->Allocate(); !status.ok()) return status;
    for (float& w : client->Weights(0)) w = kFirst;
    if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) {
      return status;
    }
    for (uint32_t step = 0; step < kFormulasSteps; ++step) {
      if (absl::Status status = client->BeginStep(kSamples); !status.ok()) return status;
      if (absl::Status status = client->WaitAll(); !status.ok()) return status;
      Record(client);
      for (uint32_t i = 0; i < kFormulasElements; ++i) {
        client->Gradients(0)[i] =
            kSamples * (client->Weights(0)[i] - static_cast<float>(Target(client->rank(), i)));
      }
      if (absl::Status status = client->Publish(0); !status.ok()) return status;
      if (absl::Status status = client->FinishStep(); !status.ok()) return status;
    }
    if (absl::Status status = client->Finish(); !status.ok()) return status;
    Record(client);
    return absl::OkStatus();
  }

  const FormulasHistory& history() const { return history_; }

 private:
  void Record(Client* client) {
    if (client->rank() % kFormulasRanks != 0) return;
    const absl::Span<float> w = client->Weights(0);
    absl::MutexLock lock(&mutex_);
    history_[client->rank() / kFormulasRanks].emplace_back(w.begin(), w.end());
  }

  absl::Mutex mutex_;
  FormulasHistory history_ = FormulasHistory(kFormulasNodes);
};

std::string MomentumSgd() {
  return absl::StrCat("momentum_sgd { momentum: ", kFormulasMomentum, " }");
}

void ExpectFollows(const std::string& mode, const FormulasHistory& expected,
                   uint32_t nodes = kFormulasNodes, const std::string& optimizer = MomentumSgd()) {
  proto::Job job;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'f' max_steps: ", kFormulasSteps, " chunk_elements: 256 window: 2 ",
                   "program { path: 'none' } optimizer { ", optimizer,
                   " } schedule { base_lr: ", kLr, " } consistency { ", mode, " }"),
      &job));
  NodeCluster cluster({nodes, kFormulasRanks, 2}, job, kFormulasElements, 100);
  Recorder recorder;
  const absl::Status status = cluster.Run([&](Client* client) { return recorder.Train(client); });
  ASSERT_TRUE(status.ok()) << mode << ": " << status;
  for (uint32_t n = 0; n < nodes; ++n) {
    ASSERT_EQ(recorder.history()[n].size(), kFormulasSteps + 1) << mode;
    for (uint32_t t = 0; t <= kFormulasSteps; ++t) {
      for (uint32_t i = 0; i < kFormulasElements; ++i) {
        ASSERT_NEAR(recorder.history()[n][t][i], expected[n][t][i], kTolerance)
            << mode << ": node " << n << " before step " << t << ", weight " << i;
      }
    }
  }
}

TEST(Formulas, LocalSgdAveragesTheNodesWeightsEveryHSteps) {
  ExpectFollows("preset: 'local(5)'", LocalSteps(5, 1.0, 0.0));
  ExpectFollows("preset: 'local(23)'", LocalSteps(23, 1.0, 0.0));
  ExpectFollows("preset: 'local(100)'", LocalSteps(100, 1.0, 0.0));
}

TEST(Formulas, DiLoCoTakesNesterovStepsWithTheNodesMeanChange) {
  ExpectFollows("preset: 'diloco(4)'", LocalSteps(4, 0.7, 0.9));
  ExpectFollows("lazy { local_steps: 1 outer { lr: 0.5 momentum: 0.3 } }", LocalSteps(1, 0.5, 0.3));
}

TEST(Formulas, AQuorumOfAllNodesIsSync) {
  ExpectFollows("sync {}", Sync());
  ExpectFollows("preset: 'quorum(3)'", Sync());
  ExpectFollows("lazy { local_steps: 5 quorum { nodes: 3 grace_ms: 1 } }", LocalSteps(5, 1.0, 0.0));
  // The first rank waits for the others, for a minute at most.
  ExpectFollows("lazy { quorum { nodes: 1 grace_ms: 60000 } }", Sync());
}

// With more nodes the center depends on the order of arrival: see the simulator.
TEST(Formulas, ElasticAveragingDrawsNodeAndCenterTogether) {
  ExpectFollows("async { elastic { every_steps: 4 moving_rate: 0.3 } }", Elastic(4, 0.3), 1);
  ExpectFollows("preset: 'easgd'", Elastic(10, 0.9), 1);
}

TEST(Formulas, SignificanceKeepsSmallChangesUntilTheyHaveGrown) {
  ExpectFollows("lazy { local_steps: 2 significance { threshold: 0.35 } }", Significance(2, 0.35));
  ExpectFollows("lazy { local_steps: 1 significance { threshold: 0.1 } }", Significance(1, 0.1));
}

// Clipped at first, free later.
constexpr double kLimit = 20.0;
std::string ClippedSgd() { return absl::StrCat(MomentumSgd(), " clip_norm: ", kLimit); }

TEST(Formulas, WhereNodesAreInStepTheirMeanGradientIsClipped) {
  const Vector first = MeanGradient(0, Vector(kFormulasElements, kFirst));
  ASSERT_GT(Norm(first), 2 * kLimit);
  const FormulasHistory sync = Sync(Clip(kLimit));
  Vector last(kFormulasElements, 0.0);
  for (uint32_t n = 0; n < kFormulasNodes; ++n) {
    const Vector own = MeanGradient(n, sync[0][kFormulasSteps]);
    for (uint32_t i = 0; i < kFormulasElements; ++i) last[i] += own[i] / kFormulasNodes;
  }
  ASSERT_LT(Norm(last), kLimit);
  ExpectFollows("sync {}", sync, kFormulasNodes, ClippedSgd());
  ExpectFollows("preset: 'ssp(0)'", sync, kFormulasNodes, ClippedSgd());
  ExpectFollows("preset: 'delay1'", DoubleBuffering(Clip(kLimit)), kFormulasNodes, ClippedSgd());
}

TEST(Formulas, ElsewhereNodesClipTheirOwnMeanGradient) {
  ExpectFollows("preset: 'local(5)'", LocalSteps(5, 1.0, 0.0, kLimit), kFormulasNodes,
                ClippedSgd());
  // With several nodes the weights depend on the order of pushes: see the simulator.
  const FormulasHistory one = Sync(Clip(kLimit), 1);
  ExpectFollows("async {}", one, 1, ClippedSgd());
  ExpectFollows("preset: 'ssp(2)'", one, 1, ClippedSgd());
  ExpectFollows("lazy { apply: ON_ARRIVAL }", one, 1, ClippedSgd());
}

// The nodes' own gradients are clipped, so their mean is shorter than the limit.
TEST(Formulas, AQuorumClipsEachNodesGradient) {
  const auto clipped = [](const Vector&, const Vector& w) {
    Vector mean(kFormulasElements, 0.0);
    for (uint32_t n = 0; n < kFormulasNodes; ++n) {
      const Vector own = Clipped(MeanGradient(n, w), kLimit);
      for (uint32_t i = 0; i < kFormulasElements; ++i) mean[i] += own[i] / kFormulasNodes;
    }
    return mean;
  };
  ExpectFollows("preset: 'quorum(3)'", Sync(clipped), kFormulasNodes, ClippedSgd());
}

TEST(Formulas, LarsMovesByAShareOfTheWeightsNorm) {
  const std::string lars = absl::StrCat("lars { momentum: ", kFormulasMomentum,
                                        " coefficient: 0.5 weight_decay: 0.25 }");
  ExpectFollows("sync {}", Sync(Lars(0.5, 0.25)), kFormulasNodes, lars);
  ExpectFollows("preset: 'delay1'", DoubleBuffering(Lars(0.5, 0.25)), kFormulasNodes, lars);
}

// From one to the other within the 5.5 epochs of the test.
TEST(Formulas, RmspropWarmUpPassesFromRmspropToMomentumSgd) {
  constexpr double kDecay = 0.75, kEpsilon = 0.125, kRmsLr = 0.05, kCenter = 2, kWidth = 3;
  Vector m(kFormulasElements, 0.0), d(kFormulasElements, 0.0);
  const auto update = [&](const Vector& g, uint32_t samples, Vector* w) {
    const double epoch = samples / 100.0;
    double a = 1;
    if (epoch < kCenter) {
      a = 0.5 * std::exp(2 * (epoch - kCenter) / kWidth);
    } else if (epoch < kCenter + kWidth / 2) {
      a = 0.5 + (epoch - kCenter) / kWidth;
    }
    const double b = (1 - a) * kRmsLr / kLr;
    for (uint32_t i = 0; i < kFormulasElements; ++i) {
      m[i] = kDecay * m[i] + (1 - kDecay) * g[i] * g[i];
      d[i] = kFormulasMomentum * d[i] - (a + b / (std::sqrt(m[i]) + kEpsilon)) * g[i];
      (*w)[i] += kLr * d[i];
    }
  };
  ExpectFollows("sync {}", SyncWith(update), kFormulasNodes,
                absl::StrCat("rmsprop_warmup { momentum: ", kFormulasMomentum,
                             " decay: 0.75 epsilon: 0.125 rms_lr: 0.05 center_epochs: 2 "
                             "width_epochs: 3 }"));
}

TEST(Formulas, DoubleBufferingUpdatesWithTheGradientsBeforeTheLast) {
  ExpectFollows("preset: 'delay1'", DoubleBuffering());
}

// Tensors that are not trained: they become the mean of what ranks push, over the samples of all.

constexpr uint32_t kNodes = 2, kRanks = 2, kSteps = 6;
constexpr uint32_t kTrained = 300, kAveraged = 20;  // both in the second of two chunks

// The value that each rank pushes at a step, a mean over its samples; rank r has r + 1 samples.
float Own(uint32_t rank, uint32_t step, uint32_t i) {
  return static_cast<float>(100 * rank + 10 * step + i);
}

// With `steps_behind` a step has the values pushed that many steps earlier.
absl::Status Train(Client* client, const std::vector<uint32_t>& ranks, uint32_t steps_behind) {
  client::Tensor trained, averaged;
  trained.name = "w";
  trained.shape = {kTrained};
  averaged.name = "statistics";
  averaged.shape = {kAveraged};
  averaged.averaged = true;
  averaged.decay_multiplier = 0;
  for (const client::Tensor& tensor : {trained, averaged}) {
    if (auto index = client->Register(tensor); !index.ok()) return index.status();
  }
  if (auto status = client->Allocate(); !status.ok()) return status;
  for (float& w : client->Weights(0)) w = 2.0f;
  for (float& value : client->Weights(1)) value = -1.0f;
  if (auto status = client->Start({.samples_per_epoch = 100}); !status.ok()) return status;
  const uint32_t samples = client->rank() + 1;
  const auto expect = [&](int64_t step) {
    for (uint32_t i = 0; i < kAveraged; ++i) {
      double sum = 0, all = 0;
      for (const uint32_t rank : ranks) {
        sum += (rank + 1.0) * (step < 0 ? -1.0 : Own(rank, static_cast<uint32_t>(step), i));
        all += rank + 1.0;
      }
      EXPECT_NEAR(client->Weights(1)[i], sum / all, 1e-3) << "after step " << step;
    }
  };
  for (uint32_t step = 0; step < kSteps; ++step) {
    if (auto status = client->BeginStep(samples); !status.ok()) return status;
    if (auto status = client->WaitAll(); !status.ok()) return status;
    expect(int64_t{step} - 1 - steps_behind);
    for (float& g : client->Gradients(0)) g = static_cast<float>(samples);
    for (uint32_t i = 0; i < kAveraged; ++i) {
      client->Gradients(1)[i] = static_cast<float>(samples) * Own(client->rank(), step, i);
    }
    for (const int tensor : {1, 0}) {
      if (auto status = client->Publish(tensor); !status.ok()) return status;
    }
    if (auto status = client->FinishStep(); !status.ok()) return status;
  }
  if (auto status = client->Finish(); !status.ok()) return status;
  expect(kSteps - 1);
  // Weights beside them are trained: their gradient is 1 everywhere, so all fall equally.
  for (const float w : client->Weights(0)) EXPECT_EQ(w, client->Weights(0)[0]);
  EXPECT_LT(client->Weights(0)[0], 2.0f);
  return absl::OkStatus();
}

void ExpectMeans(const std::string& job, uint32_t nodes = kNodes, uint32_t steps_behind = 0) {
  proto::Job parsed;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'a' max_steps: 6 chunk_elements: 256 window: 2 program { path: 'none' } "
                   "schedule { base_lr: 0.1 } ",
                   job),
      &parsed));
  NodeCluster cluster({nodes, kRanks, 2}, parsed, kTrained + kAveraged, 100);
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < nodes * kRanks; ++rank) ranks.push_back(rank);
  const absl::Status status =
      cluster.Run([&](Client* client) { return Train(client, ranks, steps_behind); });
  EXPECT_TRUE(status.ok()) << job << ": " << status;
}

TEST(AveragedTensors, AreTheMeanOfAllSamplesOfAClock) {
  ExpectMeans("optimizer { adam {} }");
  ExpectMeans("optimizer { sgd { weight_decay: 0.1 } } consistency { preset: 'ssp(0)' }");
  ExpectMeans("consistency { preset: 'quorum(2)' }");
  ExpectMeans("consistency { preset: 'delay1' }", kNodes, 1);
}

TEST(AveragedTensors, AreNeitherClippedNorPartOfANorm) {
  ExpectMeans("optimizer { momentum_sgd {} clip_norm: 0.01 }");
  ExpectMeans("optimizer { lars {} }");
  ExpectMeans("optimizer { lars {} clip_norm: 0.01 } consistency { preset: 'delay1' }", kNodes, 1);
  ExpectMeans("optimizer { momentum_sgd {} clip_norm: 0.01 } consistency { preset: 'quorum(2)' }");
}

// Each push is an update by one node's mean over its ranks.
TEST(AveragedTensors, AreThePushsMeanWherePushesAreAppliedOnArrival) {
  ExpectMeans("consistency { async {} }", 1);
  ExpectMeans("consistency { lazy { apply: ON_ARRIVAL } }", 1);
  ExpectMeans("optimizer { momentum_sgd {} clip_norm: 0.01 } consistency { async {} }", 1);
}

}  // namespace
}  // namespace strata::tests
