// Jobs with sealed frames, through real sockets: what an attacker between the endpoints reads, and
// what modifications achieve.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
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

constexpr uint64_t kSealedLinesElements = 5000;
constexpr int kSealedLinesSteps = 12;
constexpr char kSecret[] = "a secret that has 32 bytes";

proto::Job SealedLinesJobOf(const std::string& extra) {
  proto::Job job;
  const std::string text =
      absl::StrCat("name: 'sealed' epochs: 2 chunk_elements: 512 program { path: 'none' } ",
                   "optimizer { momentum_sgd {} } ", extra);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

// Returns the final weights. `before` is called at the beginning of each step.
absl::Status TrainSealedLines(Client* client, const std::function<void(int step)>& before,
                              std::vector<float>* final) {
  client::Tensor tensor;
  tensor.name = "w";
  tensor.shape = {kSealedLinesElements};
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (uint64_t i = 0; i < kSealedLinesElements; ++i) client->Weights(0)[i] = std::cos(0.1f * i);
  if (absl::Status status = client->Start({}); !status.ok()) return status;
  for (int step = 0; step < kSealedLinesSteps; ++step) {
    before(step);
    if (absl::Status status = client->BeginStep(1); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    for (uint64_t i = 0; i < kSealedLinesElements; ++i) {
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
  std::string overheard;  // between the node and its shard or the other node, in both directions
  size_t connections = 0;
};

using SealedLinesChange =
    std::function<void(const RecordingRelay::Place&, char* bytes, size_t size)>;

// An attacker between two nodes and their shard, or between two nodes of a ring.
class Way {
 public:
  Way(bool is_ring, SealedLinesChange change) : is_ring_(is_ring), change_(std::move(change)) {}

  // Returns the address at which this port is reached.
  std::string To(int port) {
    RecordingRelay::Options options{.recorded_max = 4 << 20, .change = change_};
    if (is_ring_) {
      options.host = "127.0.0.2";
      options.port = port;
    }
    absl::MutexLock lock(&mutex_);
    relays_.push_back(std::make_unique<RecordingRelay>(port, options));
    return relays_.back()->address();
  }

  // In a ring of two, only one node accepts a connection.
  void CutOldest() {
    absl::MutexLock lock(&mutex_);
    for (const auto& relay : relays_) relay->CutOldest();
  }

  void AddTo(Outcome* outcome) {
    absl::MutexLock lock(&mutex_);
    for (const auto& relay : relays_) {
      for (const std::string& said : relay->said()) outcome->overheard += said;
      for (const std::string& answered : relay->answered()) outcome->overheard += answered;
      outcome->connections += relay->said().size();
    }
  }

 private:
  const bool is_ring_;
  const SealedLinesChange change_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<RecordingRelay>> relays_ ABSL_GUARDED_BY(mutex_);
};

// Two nodes, and a shard unless the job says otherwise. `cut_at`: steps at which a connection is
// cut.
Outcome RunJob(const std::string& extra, SealedLinesChange change = nullptr,
               const std::vector<int>& cut_at = {}) {
  const proto::Job job = SealedLinesJobOf(extra);
  const bool is_ring = job.exchange() == proto::Job::RING;
  Way way(is_ring, std::move(change));
  ClusterShape shape{.nodes = 2, .shards = is_ring ? 0u : 1u};
  shape.reached_at = [&](int port) { return way.To(port); };
  NodeCluster cluster(shape, job, kSealedLinesElements, 200);
  Outcome outcome;
  absl::Mutex mutex;
  outcome.status = cluster.Run([&](Client* client) {
    const auto cut = [&](int step) {
      const bool is_due = std::find(cut_at.begin(), cut_at.end(), step) != cut_at.end();
      if (client->rank() == 0 && is_due) way.CutOldest();
    };
    std::vector<float> weights;
    const absl::Status trained = TrainSealedLines(client, cut, &weights);
    absl::MutexLock lock(&mutex);
    if (trained.ok() && !outcome.weights.empty()) {
      EXPECT_TRUE(weights == outcome.weights);
    }
    outcome.weights = std::move(weights);
    return trained;
  });
  way.AddTo(&outcome);
  return outcome;
}

// Eight consecutive weights as they are in memory, from a few places.
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
  const Outcome encrypted = RunJob("same_host: TCP");  // without a setting of protection
  ASSERT_TRUE(encrypted.status.ok()) << encrypted.status;
  EXPECT_GT(encrypted.overheard.size(),
            2u * kSealedLinesSteps * 2 * kSealedLinesElements * sizeof(float));
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

// Flips one bit of each 60 KB, wherever it is: in a payload, a header, a seal or ZeroMQ's framing;
// and one in the handshakes of connections 0, 2 and so on, alternately in each direction.
class BitFlipper {
 public:
  // `handshakes`: positions by connection.
  explicit BitFlipper(std::vector<uint64_t> handshakes) : handshakes_(std::move(handshakes)) {}

  void Change(const RecordingRelay::Place& place, char* bytes, size_t size) {
    absl::MutexLock lock(&mutex_);
    const size_t turn = place.connection / 2;
    const bool is_attacked = place.connection % 2 == 0 && turn < handshakes_.size();
    if (is_attacked && place.forwards == (turn % 2 == 0)) {
      const uint64_t at = handshakes_[turn];
      if (at >= place.at && at - place.at < size) Flip(&bytes[at - place.at]);
    }
    const uint64_t next = (passed_ / kEvery + 1) * kEvery;
    if (next < passed_ + size) Flip(&bytes[next - passed_]);
    passed_ += size;
  }

  int flipped() {
    absl::MutexLock lock(&mutex_);
    return flipped_;
  }

 private:
  static constexpr uint64_t kEvery = 60'000;

  void Flip(char* byte) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    *byte = static_cast<char>(*byte ^ (1 << (++flipped_ % 8)));
  }

  const std::vector<uint64_t> handshakes_;
  absl::Mutex mutex_;
  uint64_t passed_ ABSL_GUARDED_BY(mutex_) = 0;
  int flipped_ ABSL_GUARDED_BY(mutex_) = 0;
};

void ExpectOnlyConnectionsAreLost(const std::string& exchange, std::vector<uint64_t> handshakes) {
  const Outcome quiet = RunJob(exchange + " same_host: TCP protection: ENCRYPT");
  ASSERT_TRUE(quiet.status.ok()) << quiet.status;
  for (const char* protection : {"ENCRYPT", "SIGN"}) {
    SCOPED_TRACE(protection);
    BitFlipper flipper(handshakes);
    const Outcome attacked =
        RunJob(absl::StrCat(exchange, " same_host: TCP protection: ", protection),
               [&](const RecordingRelay::Place& place, char* bytes, size_t size) {
                 flipper.Change(place, bytes, size);
               },
               /*cut_at=*/{3, 5, 8});
    ASSERT_TRUE(attacked.status.ok()) << attacked.status;
    EXPECT_TRUE(attacked.weights == quiet.weights);
    EXPECT_GT(flipper.flipped(), 5);
    // Both nodes notice many of them at once.
    EXPECT_GT(attacked.connections, quiet.connections + 5);
    handshakes.clear();  // they are the same with both
  }
}

// In ZeroMQ's greeting, its READY, the header of a handshake, and the messages of TLS in it.
TEST(SealedLines, ChangedBitsAndCutsCostConnectionsAndNothingElse) {
  ExpectOnlyConnectionsAreLost("", {18, 27, 72, 117, 175, 144, 299, 206, 454, 268, 609, 330});
}

// The listening node of a ring does not answer a damaged handshake: the other one waits for 5 s.
TEST(SealedLines, ChangedBitsAndCutsInARingDoSoToo) {
  ExpectOnlyConnectionsAreLost("exchange: RING", {299});
}

}  // namespace
}  // namespace strata::tests
