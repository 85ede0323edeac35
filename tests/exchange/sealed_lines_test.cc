// Jobs whose frames are sealed, through real sockets: what somebody on the way reads, and what he
// achieves by changing it.
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/recording_relay.h"
#include "tests/exchange/node_cluster.h"

namespace strata::tests {
namespace {

using client::Client;

constexpr uint64_t kElements = 5000;
constexpr int kSteps = 12;
constexpr char kSecret[] = "a secret that has 32 bytes";

proto::Job JobOf(const std::string& extra) {
  proto::Job job;
  const std::string text =
      absl::StrCat("name: 'sealed' epochs: 2 chunk_elements: 512 program { path: 'none' } ",
                   "optimizer { momentum_sgd {} } ", extra);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

// Returns the final weights.
absl::Status Train(Client* client, std::vector<float>* final) {
  client::Tensor tensor;
  tensor.name = "w";
  tensor.shape = {kElements};
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (uint64_t i = 0; i < kElements; ++i) client->Weights(0)[i] = std::cos(0.1f * i);
  if (absl::Status status = client->Start({}); !status.ok()) return status;
  for (int step = 0; step < kSteps; ++step) {
    if (absl::Status status = client->BeginStep(1); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    for (uint64_t i = 0; i < kElements; ++i) {
      client->Gradients(0)[i] =
          0.3f * client->Weights(0)[i] + std::sin(0.37f * (i + 11 * client->rank() + 101 * step));
    }
    if (absl::Status status = client->Publish(0); !status.ok()) return status;
    if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  }
  const absl::Status status = client->Finish();
  final->assign(client->Weights(0).begin(), client->Weights(0).end());
  return status;
}

struct Outcome {
  absl::Status status;
  std::vector<float> weights;
  std::string overheard;  // on the way to the shard and back
  size_t connections = 0;
};

// Two nodes and a shard, and somebody between them.
Outcome RunJob(const std::string& extra, std::function<void(char*, size_t)> change = nullptr) {
  std::unique_ptr<RecordingRelay> relay;
  ClusterShape shape{.nodes = 2};
  shape.reached_at = [&](int port) {
    relay = std::make_unique<RecordingRelay>(
        port, RecordingRelay::Options{.recorded_max = 4 << 20, .change = std::move(change)});
    return relay->address();
  };
  NodeCluster cluster(shape, JobOf(extra), kElements, 200);
  Outcome outcome;
  absl::Mutex mutex;
  outcome.status = cluster.Run([&](Client* client) {
    std::vector<float> weights;
    const absl::Status trained = Train(client, &weights);
    absl::MutexLock lock(&mutex);
    if (trained.ok() && !outcome.weights.empty()) EXPECT_TRUE(weights == outcome.weights);
    outcome.weights = std::move(weights);
    return trained;
  });
  for (const std::string& said : relay->said()) outcome.overheard += said;
  for (const std::string& answered : relay->answered()) outcome.overheard += answered;
  outcome.connections = relay->said().size();
  return outcome;
}

// Eight weights in a row, as they lie in memory, from a few places.
bool Tells(const std::string& overheard, const std::vector<float>& weights) {
  for (size_t i = 0; i + 8 < weights.size(); i += 499) {
    const std::string run(reinterpret_cast<const char*>(&weights[i]), 8 * sizeof(float));
    if (absl::StrContains(overheard, run)) return true;
  }
  return false;
}

TEST(SealedLines, OnlyEncryptedOnesTellNoWeights) {
  const Outcome plain = RunJob("same_host: TCP protection: PLAIN");
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  EXPECT_TRUE(Tells(plain.overheard, plain.weights));
  const Outcome is_signed = RunJob("same_host: TCP protection: SIGN");
  ASSERT_TRUE(is_signed.status.ok()) << is_signed.status;
  EXPECT_TRUE(Tells(is_signed.overheard, is_signed.weights));
  const Outcome encrypted = RunJob("same_host: TCP");  // what tests say that say nothing
  ASSERT_TRUE(encrypted.status.ok()) << encrypted.status;
  EXPECT_GT(encrypted.overheard.size(), 2u * kSteps * 2 * kElements * sizeof(float));
  EXPECT_FALSE(Tells(encrypted.overheard, encrypted.weights));
  for (const Outcome* sealed : {&is_signed, &encrypted}) {
    EXPECT_TRUE(sealed->weights == plain.weights);
    EXPECT_FALSE(absl::StrContains(sealed->overheard, kSecret));
    EXPECT_EQ(sealed->connections, 2u);
  }
}

TEST(SealedLines, BitsAreThoseOfPlainOnesWhateverTravels) {
  for (const char* extra : {"", "push { codec: INT8 } pull { codec: FP16 }",
                            "consistency { lazy { staleness: 0 } } connections: 3"}) {
    const Outcome plain = RunJob(absl::StrCat(extra, " protection: PLAIN"));
    ASSERT_TRUE(plain.status.ok()) << extra << ": " << plain.status;
    for (const char* more :
         {" protection: SIGN", " protection: ENCRYPT", " protection: ENCRYPT same_host: TCP"}) {
      const Outcome sealed = RunJob(absl::StrCat(extra, more));
      ASSERT_TRUE(sealed.status.ok()) << extra << more << ": " << sealed.status;
      EXPECT_TRUE(sealed.weights == plain.weights) << extra << more;
    }
  }
}

// One bit of each 100 KB.
TEST(SealedLines, ChangedBitsCostConnectionsAndNothingElse) {
  const Outcome quiet = RunJob("same_host: TCP protection: ENCRYPT");
  ASSERT_TRUE(quiet.status.ok()) << quiet.status;
  for (const char* protection : {"ENCRYPT", "SIGN"}) {
    std::atomic<uint64_t> passed = 0, flipped = 0;
    const Outcome attacked = RunJob(
        absl::StrCat("same_host: TCP protection: ", protection), [&](char* bytes, size_t size) {
          passed += size;
          if (size < 1000 || passed < (flipped + 1) * 100'000) return;
          const uint64_t bit = 8 * (size / 2) + ++flipped % 8;
          bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
        });
    ASSERT_TRUE(attacked.status.ok()) << attacked.status;
    EXPECT_TRUE(attacked.weights == quiet.weights) << protection;
    EXPECT_GT(flipped, 5u);
    EXPECT_GT(attacked.connections, quiet.connections);
  }
}

}  // namespace
}  // namespace strata::tests
