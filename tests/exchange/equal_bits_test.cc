// The equalities of docs/semantics.md at the level of gradients, through real sockets and memory.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/recording_relay.h"
#include "tests/exchange/node_cluster.h"

namespace strata::tests {
namespace {

using client::Client;

constexpr uint64_t kWeight = 5000, kBias = 37;
constexpr uint64_t kEqualBitsElements = kWeight + kBias;
constexpr uint32_t kBatch = 4;
constexpr uint64_t kSamplesPerEpoch = 200;
constexpr int kEqualBitsSteps = 12;

// Weights before each step and at the end.
using History = std::vector<std::vector<float>>;

proto::Job JobOf(const std::string& extra) {
  proto::Job job;
  const std::string text = absl::StrCat(
      "name: 'bits' epochs: 2 chunk_elements: 256 window: 2 "
      "program { path: 'none' } ",
      extra);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

// Gradients that depend on weights, rank and step, so that any difference grows.
void Backward(uint32_t rank, int step, absl::Span<const float> weights,
              absl::Span<float> gradients) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const float wave = std::sin(0.37f * static_cast<float>(i + 11 * rank + 101 * step));
    gradients[i] = static_cast<float>(kBatch) * (0.3f * weights[i] + wave);
  }
}

absl::Status TrainEqualBits(
    Client* client, History* history, const std::function<void(int)>& before_step = [](int) {}) {
  client::Tensor bias, weight;
  bias.name = "b";
  bias.shape = {kBias};
  bias.decay_multiplier = 0;
  weight.name = "w";
  weight.shape = {50, 100};
  if (auto index = client->Register(bias); !index.ok()) return index.status();
  if (auto index = client->Register(weight); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (int tensor : {0, 1}) {
    absl::Span<float> weights = client->Weights(tensor);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.01f * static_cast<float>(i % 97);
  }
  if (auto status = client->Start({.samples_per_epoch = kSamplesPerEpoch}); !status.ok()) {
    return status;
  }
  for (int step = 0; step < kEqualBitsSteps; ++step) {
    before_step(step);
    if (absl::Status status = client->BeginStep(kBatch); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    history->emplace_back(client->ReadWeights()->begin(), client->ReadWeights()->end());
    for (int tensor : {0, 1}) {
      Backward(client->rank(), step, client->Weights(tensor), client->Gradients(tensor));
      if (absl::Status status = client->Publish(tensor); !status.ok()) return status;
    }
    if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  }
  if (absl::Status status = client->Finish(); !status.ok()) return status;
  history->emplace_back(client->ReadWeights()->begin(), client->ReadWeights()->end());
  return absl::OkStatus();
}

History Alone(const proto::Job& job) {
  History history;
  absl::Status status =
      RunAlone(job, [&](Client* client) { return TrainEqualBits(client, &history); });
  EXPECT_TRUE(status.ok()) << status;
  return history;
}

// The history of every rank; all must be equal.
History Cluster(const ClusterShape& shape, const proto::Job& job) {
  NodeCluster cluster(shape, job, kEqualBitsElements, kSamplesPerEpoch);
  absl::Mutex mutex;
  std::vector<History> histories;
  absl::Status status = cluster.Run([&](Client* client) {
    History history;
    absl::Status trained = TrainEqualBits(client, &history);
    absl::MutexLock lock(&mutex);
    histories.push_back(std::move(history));
    return trained;
  });
  EXPECT_TRUE(status.ok()) << status;
  for (const History& history : histories) EXPECT_EQ(history, histories[0]);
  for (uint64_t pushes : cluster.Pushes()) EXPECT_GT(pushes, 0u);
  return histories[0];
}

// Compares without printing 60,000 numbers.
void ExpectSame(const History& a, const History& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t step = 0; step < a.size(); ++step) {
    for (size_t i = 0; i < kEqualBitsElements; ++i) {
      ASSERT_EQ(a[step][i], b[step][i]) << what << ", step " << step << ", element " << i;
    }
  }
}

constexpr const char* kOptimizers[] = {
    "optimizer { sgd { weight_decay: 1e-3 } }",
    "optimizer { momentum_sgd { weight_decay: 1e-3 } } "
    "schedule { base_lr: 0.1 warmup_epochs: 0.1 cosine {} }",
    "optimizer { nesterov {} } schedule { base_lr: 0.1 step { boundaries_epochs: 0.1 } }",
    "optimizer { adam {} }",
    "optimizer { adamw {} } schedule { base_lr: 0.01 }",
};

TEST(EqualBitsTest, OneRankThroughTheClusterIsARankWithNoExchange) {
  for (const char* optimizer : kOptimizers) {
    const proto::Job job = JobOf(optimizer);
    const History alone = Alone(job);
    ASSERT_EQ(alone.size(), kEqualBitsSteps + 1u);
    EXPECT_NE(alone.front(), alone.back());
    ExpectSame(alone, Cluster({1, 1, 2}, job), optimizer);
  }
}

TEST(EqualBitsTest, FourRanksAreTheSameOnOneTwoAndFourNodesAndAnyNumberOfShards) {
  const proto::Job job = JobOf(kOptimizers[1]);
  const History one = Cluster({1, 4, 1}, job);
  ExpectSame(one, Cluster({2, 2, 1}, job), "2 x 2, 1 shard");
  ExpectSame(one, Cluster({4, 1, 1}, job), "4 x 1, 1 shard");
  ExpectSame(one, Cluster({2, 2, 4}, job), "2 x 2, 4 shards");
  ExpectSame(one, Cluster({4, 1, 3}, job), "4 x 1, 3 shards");
}

TEST(EqualBitsTest, LazyWithoutStalenessIsSync) {
  ExpectSame(Cluster({2, 2, 2}, JobOf(kOptimizers[1])),
             Cluster({2, 2, 2},
                     JobOf(absl::StrCat(kOptimizers[1], "consistency { lazy { staleness: 0 } }"))),
             "lazy(0)");
}

TEST(EqualBitsTest, TheWindowDoesNotShow) {
  proto::Job wide = JobOf(kOptimizers[1]);
  wide.set_window(64);
  ExpectSame(Cluster({2, 1, 2}, JobOf(kOptimizers[1])), Cluster({2, 1, 2}, wide), "window 64");
}

// By reference, or through a socket.
TEST(EqualBitsTest, ProtectionDoesNotShow) {
  for (const char* way : {"", " same_host: TCP"}) {
    proto::Job job = JobOf(absl::StrCat(kOptimizers[1], way));
    const History encrypted = Cluster({2, 2, 2}, job);
    for (const auto protection : {proto::Job::SIGN, proto::Job::PLAIN}) {
      job.set_protection(protection);
      ExpectSame(encrypted, Cluster({2, 2, 2}, job),
                 absl::StrCat(proto::Job::Protection_Name(protection), way));
    }
  }
}

TEST(EqualBitsTest, TheNumberOfConnectionsDoesNotShow) {
  const proto::Job one = JobOf(absl::StrCat(kOptimizers[1], " same_host: TCP"));
  const History history = Cluster({2, 2, 2}, one);
  for (const uint32_t connections : {3, 16}) {
    proto::Job job = one;
    job.set_connections(connections);
    ExpectSame(history, Cluster({2, 2, 2}, job), absl::StrCat(connections, " connections"));
  }
}

TEST(EqualBitsTest, ConnectionsThatAreCutWhileOthersGoOnDoNotShow) {
  proto::Job job = JobOf(absl::StrCat(kOptimizers[1], " same_host: TCP"));
  const History history = Cluster({2, 1, 1}, job);
  job.set_connections(3);
  std::unique_ptr<RecordingRelay> relay;
  ClusterShape shape{.nodes = 2};
  shape.reached_at = [&](int port) {
    relay = std::make_unique<RecordingRelay>(port, RecordingRelay::Options{.recorded_max = 0});
    return relay->address();
  };
  NodeCluster cluster(shape, job, kEqualBitsElements, kSamplesPerEpoch);
  absl::Mutex mutex;
  std::vector<History> histories;
  const absl::Status status = cluster.Run([&](Client* client) {
    History steps;
    const absl::Status trained = TrainEqualBits(client, &steps, [&](int step) {
      if (client->rank() != 0 || step % 3 != 1) return;
      EXPECT_TRUE(relay->CutOldest());
    });
    absl::MutexLock lock(&mutex);
    histories.push_back(std::move(steps));
    return trained;
  });
  ASSERT_TRUE(status.ok()) << status;
  for (const History& each : histories) ExpectSame(history, each, "cut");
  EXPECT_EQ(relay->said().size(), 2u * 3 + 4) << "connections, and one more for each that was cut";
}

}  // namespace
}  // namespace strata::tests
