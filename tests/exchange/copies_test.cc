// Every copy of a chunk's bytes between ranks and servers, as docs/wire.md lists them.
#include "common/copies.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/exchange/node_cluster.h"

namespace strata::tests {
namespace {

using client::Client;

constexpr uint64_t kElements = 4 * 16384;  // four chunks, large enough to go by reference
constexpr uint64_t kModelBytes = kElements * sizeof(float);
constexpr uint64_t kCopiesSteps = 40;
constexpr uint64_t kCopiesNodes = 2;

using Copied = std::array<uint64_t, kCopyReasons>;

Copied Now() {
  Copied copied;
  for (int i = 0; i < kCopyReasons; ++i) copied[i] = CopiedBytes(static_cast<CopyReason>(i));
  return copied;
}

absl::Status TrainCopies(Client* client) {
  client::Tensor tensor;
  tensor.name = "w";
  tensor.shape = {kElements};
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  if (absl::Status status = client->Start({}); !status.ok()) return status;
  for (uint64_t step = 0; step < kCopiesSteps; ++step) {
    if (absl::Status status = client->BeginStep(1); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    for (float& gradient : client->Gradients(0)) gradient = 1.0f;
    if (absl::Status status = client->Publish(0); !status.ok()) return status;
    if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  }
  return client->Finish();
}

// The bytes that a job copies, by reason.
Copied CopiedBy(uint32_t ranks_per_node, const std::string& extra) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'copies' max_steps: ", kCopiesSteps, " chunk_elements: 16384 ",
                   "optimizer { sgd {} } program { path: 'none' } ", extra),
      &job));
  NodeCluster cluster({kCopiesNodes, ranks_per_node, 1}, job, kElements, kCopiesSteps);
  const Copied before = Now();
  const absl::Status status = cluster.Run(&TrainCopies);
  EXPECT_TRUE(status.ok()) << status;
  Copied copied = Now();
  for (int i = 0; i < kCopyReasons; ++i) copied[i] -= before[i];
  return copied;
}

uint64_t Of(const Copied& copied, CopyReason reason) { return copied[static_cast<int>(reason)]; }

// First weights are copied once; each answer and the final weights are copied once on each node.
// The shard keeps the first weights.
void ExpectAtBothEnds(const Copied& copied) {
  EXPECT_EQ(Of(copied, CopyReason::kFirstWeights), kCopiesNodes * kModelBytes);
  EXPECT_EQ(Of(copied, CopyReason::kIntoArena), kCopiesNodes * (kCopiesSteps + 1) * kModelBytes);
  EXPECT_EQ(Of(copied, CopyReason::kRepeatedPush), 0u);
  EXPECT_EQ(Of(copied, CopyReason::kUnaligned), 0u);
  EXPECT_EQ(Of(copied, CopyReason::kJoined), 0u);
  EXPECT_EQ(Of(copied, CopyReason::kSparse), 0u);
  EXPECT_EQ(Of(copied, CopyReason::kWholeCopy), 0u);
  EXPECT_EQ(Of(copied, CopyReason::kSeed), kModelBytes);
}

// Seals make no copies: the encrypted bytes are another value.
TEST(Copies, OverTcpEveryPayloadGoesThroughASocketOnceAndLandsInTheArena) {
  for (const char* protection : {"ENCRYPT", "SIGN", "PLAIN"}) {
    for (const uint32_t ranks : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(protection, ", ", ranks, " ranks"));
      const Copied copied =
          CopiedBy(ranks, absl::StrCat("same_host: TCP protection: ", protection));
      ExpectAtBothEnds(copied);
      // INIT, pushes, answers, CUT.
      EXPECT_EQ(Of(copied, CopyReason::kSocket),
                kCopiesNodes * (2 * kCopiesSteps + 2) * kModelBytes);
    }
  }
}

// The moment at which both sides know each other's memory depends on timing.
TEST(Copies, OnOneHostPayloadsGoThroughNoSocketOnceTheMemoryIsShared) {
  for (const uint32_t ranks : {1, 2}) {
    const Copied copied = CopiedBy(ranks, "");
    ExpectAtBothEnds(copied);
    EXPECT_LE(Of(copied, CopyReason::kSocket), kCopiesNodes * 4 * kModelBytes);
  }
}

}  // namespace
}  // namespace strata::tests
