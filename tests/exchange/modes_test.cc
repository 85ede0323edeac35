// Modes whose results depend on timing: they must run to the end and keep their bounds.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/exchange/node_cluster.h"

namespace strata::tests {
namespace {

using client::Client;

constexpr int kSteps = 40;

// w starts at 8 and is drawn to 0 by g = w, a sample each. Returns the largest |w| at the end.
absl::Status Shrink(Client* client, uint64_t elements, std::atomic<float>* largest) {
  client::Tensor tensor;
  tensor.name = "w";
  tensor.shape = {elements};
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (float& w : client->Weights(0)) w = 8.0f;
  if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) return status;
  for (int step = 0; step < kSteps; ++step) {
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
                     uint32_t chunk_elements = 256, uint64_t clocks = kSteps) {
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
  // Rounds so short that the weights shrink enough even if every answer is as stale as it may be.
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

}  // namespace
}  // namespace strata::tests
