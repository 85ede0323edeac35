// Modes whose weights follow from a formula, step by step: real nodes and shards against plain
// loops in double. The problem: rank r's samples draw each weight to a target of its own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/exchange/node_cluster.h"

namespace strata::tests {
namespace {

using client::Client;
using Vector = std::vector<double>;

constexpr uint32_t kNodes = 3, kRanks = 2, kElements = 600, kSteps = 23, kSamples = 4;
constexpr double kLr = 0.1, kMomentum = 0.5, kFirst = 3.0;
// Single precision over kSteps updates.
constexpr double kTolerance = 2e-5;

double Target(uint32_t rank, uint32_t i) { return std::sin(1.0 + 7 * rank + 0.01 * i); }

// Of node n's samples at x: the mean over its ranks.
Vector MeanGradient(uint32_t node, const Vector& x) {
  Vector g(kElements, 0.0);
  for (uint32_t r = 0; r < kRanks; ++r) {
    for (uint32_t i = 0; i < kElements; ++i) {
      g[i] += (x[i] - Target(node * kRanks + r, i)) / kRanks;
    }
  }
  return g;
}

// w(t) of every node before each step, and after the last one.
using History = std::vector<std::vector<Vector>>;  // by node, then step

// Momentum SGD, as job.proto says.
struct Momentum {
  Vector v = Vector(kElements, 0.0);
  void Update(const Vector& g, Vector* w) {
    for (uint32_t i = 0; i < kElements; ++i) {
      v[i] = kMomentum * v[i] + g[i];
      (*w)[i] -= kLr * v[i];
    }
  }
};

Vector Clipped(const Vector& g, double limit);

// `clip`: of each node's gradients; 0: none.
History LocalSteps(uint32_t steps, double outer_lr, double outer_momentum, double clip = 0) {
  History history(kNodes);
  std::vector<Vector> x(kNodes, Vector(kElements, kFirst));
  std::vector<Momentum> inner(kNodes);
  Vector w(kElements, kFirst), b(kElements, 0.0);
  for (uint32_t t = 0; t < kSteps; ++t) {
    for (uint32_t n = 0; n < kNodes; ++n) {
      history[n].push_back(x[n]);
      const Vector g = MeanGradient(n, x[n]);
      inner[n].Update(clip > 0 ? Clipped(g, clip) : g, &x[n]);
    }
    if ((t + 1) % steps != 0 && t + 1 != kSteps) continue;
    for (uint32_t i = 0; i < kElements; ++i) {
      double change = 0;
      for (uint32_t n = 0; n < kNodes; ++n) change += (w[i] - x[n][i]) / kNodes;
      b[i] = outer_momentum * b[i] + change;
      w[i] -= outer_lr * (change + outer_momentum * b[i]);
    }
    for (Vector& one : x) one = w;
  }
  for (auto& of_node : history) of_node.push_back(w);
  return history;
}

// As LocalSteps(steps, 1, 0), but what has changed by less than a share stays with the node.
History Significance(uint32_t steps, double threshold) {
  History history(kNodes);
  std::vector<Vector> x(kNodes, Vector(kElements, kFirst));
  std::vector<Momentum> inner(kNodes);
  Vector w(kElements, kFirst);
  for (uint32_t t = 0; t < kSteps; ++t) {
    for (uint32_t n = 0; n < kNodes; ++n) {
      history[n].push_back(x[n]);
      inner[n].Update(MeanGradient(n, x[n]), &x[n]);
    }
    const bool is_last = t + 1 == kSteps;
    if ((t + 1) % steps != 0 && !is_last) continue;
    const double limit = threshold / std::sqrt(t / steps + 1.0);
    Vector change(kElements, 0.0);
    for (uint32_t n = 0; n < kNodes; ++n) {
      // By chunk of 256, and all of it where more than half is significant.
      for (uint32_t begin = 0; begin < kElements; begin += 256) {
        const uint32_t end = std::min(kElements, begin + 256);
        const auto is_significant = [&](uint32_t i) {
          return std::abs(w[i] - x[n][i]) > limit * std::abs(w[i]);
        };
        uint32_t count = 0;
        for (uint32_t i = begin; i < end; ++i) count += is_significant(i) ? 1 : 0;
        const bool all = is_last || count > (end - begin - 1) / 2;
        for (uint32_t i = begin; i < end; ++i) {
          const double u = w[i] - x[n][i];
          const bool is_sent = all || is_significant(i);
          change[i] += is_sent ? u / kNodes : 0;
          x[n][i] = is_sent ? 0 : -u;  // besides the answer
        }
      }
    }
    for (uint32_t i = 0; i < kElements; ++i) w[i] -= change[i];
    for (Vector& one : x) {
      for (uint32_t i = 0; i < kElements; ++i) one[i] += w[i];
    }
  }
  for (auto& of_node : history) of_node.push_back(w);
  return history;
}

using Change = std::function<Vector(const Vector& g, const Vector& w)>;
Vector AsItIs(const Vector& g, const Vector& /*w*/) { return g; }

// `change` makes another mean gradient of each before the optimizer has it.
History DoubleBuffering(const Change& change = AsItIs) {
  History history(kNodes);
  Vector w(kElements, kFirst), before;
  Momentum optimizer;
  for (uint32_t t = 0; t < kSteps; ++t) {
    Vector g(kElements, 0.0);
    for (uint32_t n = 0; n < kNodes; ++n) {
      history[n].push_back(w);
      const Vector own = MeanGradient(n, w);
      for (uint32_t i = 0; i < kElements; ++i) g[i] += own[i] / kNodes;
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

// An optimizer: the update with which so many samples have been applied in all.
using Optimizer = std::function<void(const Vector& g, uint32_t samples, Vector* w)>;

// Sync, and what it is with a quorum of all nodes.
History SyncWith(const Optimizer& optimizer, uint32_t nodes = kNodes) {
  History history(kNodes);
  Vector w(kElements, kFirst);
  for (uint32_t t = 0; t <= kSteps; ++t) {
    Vector g(kElements, 0.0);
    for (uint32_t n = 0; n < nodes; ++n) {
      history[n].push_back(w);
      const Vector own = MeanGradient(n, w);
      for (uint32_t i = 0; i < kElements; ++i) g[i] += own[i] / nodes;
    }
    optimizer(g, (t + 1) * nodes * kRanks * kSamples, &w);
  }
  return history;
}

History Sync(const Change& change = AsItIs, uint32_t nodes = kNodes) {
  Momentum momentum;
  return SyncWith([&](const Vector& g, uint32_t, Vector* w) { momentum.Update(change(g, *w), w); },
                  nodes);
}

// Of one node: its weights x, and the center c at the end.
History Elastic(uint32_t steps, double moving_rate) {
  History history(kNodes);
  Vector x(kElements, kFirst), c = x;
  Momentum inner;
  for (uint32_t t = 0; t < kSteps; ++t) {
    history[0].push_back(x);
    inner.Update(MeanGradient(0, x), &x);
    if ((t + 1) % steps != 0 && t + 1 != kSteps) continue;
    for (uint32_t i = 0; i < kElements; ++i) {
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
    Vector step(kElements);
    for (uint32_t i = 0; i < kElements; ++i) step[i] = trust * (g[i] + decay * w[i]);
    return step;
  };
}

class Recorder {
 public:
  absl::Status Train(Client* client) {
    client::Tensor tensor;
    tensor.name = "w";
    tensor.shape = {kElements};
    if (auto index = client->Register(tensor); !index.ok()) return index.status();
    if (absl::Status status = client->Allocate(); !status.ok()) return status;
    for (float& w : client->Weights(0)) w = kFirst;
    if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) {
      return status;
    }
    for (uint32_t step = 0; step < kSteps; ++step) {
      if (absl::Status status = client->BeginStep(kSamples); !status.ok()) return status;
      if (absl::Status status = client->WaitAll(); !status.ok()) return status;
      Record(client);
      for (uint32_t i = 0; i < kElements; ++i) {
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

  const History& history() const { return history_; }

 private:
  void Record(Client* client) {
    if (client->rank() % kRanks != 0) return;
    const absl::Span<float> w = client->Weights(0);
    absl::MutexLock lock(&mutex_);
    history_[client->rank() / kRanks].emplace_back(w.begin(), w.end());
  }

  absl::Mutex mutex_;
  History history_ = History(kNodes);
};

std::string MomentumSgd() { return absl::StrCat("momentum_sgd { momentum: ", kMomentum, " }"); }

void ExpectFollows(const std::string& mode, const History& expected, uint32_t nodes = kNodes,
                   const std::string& optimizer = MomentumSgd()) {
  proto::Job job;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'f' max_steps: ", kSteps, " chunk_elements: 256 window: 2 ",
                   "program { path: 'none' } optimizer { ", optimizer,
                   " } schedule { base_lr: ", kLr, " } consistency { ", mode, " }"),
      &job));
  NodeCluster cluster({nodes, kRanks, 2}, job, kElements, 100);
  Recorder recorder;
  const absl::Status status = cluster.Run([&](Client* client) { return recorder.Train(client); });
  ASSERT_TRUE(status.ok()) << mode << ": " << status;
  for (uint32_t n = 0; n < nodes; ++n) {
    ASSERT_EQ(recorder.history()[n].size(), kSteps + 1) << mode;
    for (uint32_t t = 0; t <= kSteps; ++t) {
      for (uint32_t i = 0; i < kElements; ++i) {
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
  // Whoever comes first waits for the others, for a minute at most.
  ExpectFollows("lazy { quorum { nodes: 1 grace_ms: 60000 } }", Sync());
}

// With more nodes the center depends on who comes first: see the simulator.
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
  const Vector first = MeanGradient(0, Vector(kElements, kFirst));
  ASSERT_GT(Norm(first), 2 * kLimit);
  const History sync = Sync(Clip(kLimit));
  Vector last(kElements, 0.0);
  for (uint32_t n = 0; n < kNodes; ++n) {
    const Vector own = MeanGradient(n, sync[0][kSteps]);
    for (uint32_t i = 0; i < kElements; ++i) last[i] += own[i] / kNodes;
  }
  ASSERT_LT(Norm(last), kLimit);
  ExpectFollows("sync {}", sync, kNodes, ClippedSgd());
  ExpectFollows("preset: 'ssp(0)'", sync, kNodes, ClippedSgd());
  ExpectFollows("preset: 'delay1'", DoubleBuffering(Clip(kLimit)), kNodes, ClippedSgd());
}

TEST(Formulas, ElsewhereNodesClipTheirOwnMeanGradient) {
  ExpectFollows("preset: 'local(5)'", LocalSteps(5, 1.0, 0.0, kLimit), kNodes, ClippedSgd());
  // Of several nodes the weights depend on who comes first: see the simulator.
  const History one = Sync(Clip(kLimit), 1);
  ExpectFollows("async {}", one, 1, ClippedSgd());
  ExpectFollows("preset: 'ssp(2)'", one, 1, ClippedSgd());
  ExpectFollows("lazy { apply: ON_ARRIVAL }", one, 1, ClippedSgd());
}

// The nodes' own gradients are clipped, so their mean is shorter than the limit.
TEST(Formulas, AQuorumClipsEachNodesGradient) {
  const auto clipped = [](const Vector&, const Vector& w) {
    Vector mean(kElements, 0.0);
    for (uint32_t n = 0; n < kNodes; ++n) {
      const Vector own = Clipped(MeanGradient(n, w), kLimit);
      for (uint32_t i = 0; i < kElements; ++i) mean[i] += own[i] / kNodes;
    }
    return mean;
  };
  ExpectFollows("preset: 'quorum(3)'", Sync(clipped), kNodes, ClippedSgd());
}

TEST(Formulas, LarsMovesByAShareOfTheWeightsNorm) {
  const std::string lars =
      absl::StrCat("lars { momentum: ", kMomentum, " coefficient: 0.5 weight_decay: 0.25 }");
  ExpectFollows("sync {}", Sync(Lars(0.5, 0.25)), kNodes, lars);
  ExpectFollows("preset: 'delay1'", DoubleBuffering(Lars(0.5, 0.25)), kNodes, lars);
}

// From one to the other within the 5.5 epochs of the test.
TEST(Formulas, RmspropWarmUpPassesFromRmspropToMomentumSgd) {
  constexpr double kDecay = 0.75, kEpsilon = 0.125, kRmsLr = 0.05, kCenter = 2, kWidth = 3;
  Vector m(kElements, 0.0), d(kElements, 0.0);
  const auto update = [&](const Vector& g, uint32_t samples, Vector* w) {
    const double epoch = samples / 100.0;
    double a = 1;
    if (epoch < kCenter) {
      a = 0.5 * std::exp(2 * (epoch - kCenter) / kWidth);
    } else if (epoch < kCenter + kWidth / 2) {
      a = 0.5 + (epoch - kCenter) / kWidth;
    }
    const double b = (1 - a) * kRmsLr / kLr;
    for (uint32_t i = 0; i < kElements; ++i) {
      m[i] = kDecay * m[i] + (1 - kDecay) * g[i] * g[i];
      d[i] = kMomentum * d[i] - (a + b / (std::sqrt(m[i]) + kEpsilon)) * g[i];
      (*w)[i] += kLr * d[i];
    }
  };
  ExpectFollows("sync {}", SyncWith(update), kNodes,
                absl::StrCat("rmsprop_warmup { momentum: ", kMomentum,
                             " decay: 0.75 epsilon: 0.125 rms_lr: 0.05 center_epochs: 2 "
                             "width_epochs: 3 }"));
}

TEST(Formulas, DoubleBufferingUpdatesWithTheGradientsBeforeTheLast) {
  ExpectFollows("preset: 'delay1'", DoubleBuffering());
}

}  // namespace
}  // namespace strata::tests
