// Tensors that are not trained: they become the mean of what ranks push, over the samples of all.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/exchange/node_cluster.h"

namespace strata::tests {
namespace {

using client::Client;

constexpr uint32_t kNodes = 2, kRanks = 2, kSteps = 6;
constexpr uint32_t kTrained = 300, kAveraged = 20;  // both in the second of two chunks

// What each rank has in hand at a step, a mean over its samples; rank r has r + 1 samples.
float Own(uint32_t rank, uint32_t step, uint32_t i) {
  return static_cast<float>(100 * rank + 10 * step + i);
}

// With `steps_behind` a step has what was pushed so many steps before the last.
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
  // Weights beside them are trained: with a gradient of 1 everywhere all alike, and downwards.
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

// Each push is an update: of one node, the mean over its ranks.
TEST(AveragedTensors, AreThePushsMeanWherePushesAreAppliedOnArrival) {
  ExpectMeans("consistency { async {} }", 1);
  ExpectMeans("consistency { lazy { apply: ON_ARRIVAL } }", 1);
  ExpectMeans("optimizer { momentum_sgd {} clip_norm: 0.01 } consistency { async {} }", 1);
}

}  // namespace
}  // namespace strata::tests
