#include "worker/contract/node_memory.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr uint64_t kElements = 3000;

// One rank's mapping of the node's memory, with weights shared.
std::unique_ptr<NodeMemory> Attached(const NodeMemory& node, uint32_t local_rank) {
  auto memory = NodeMemory::Attach(UniqueFd(dup(node.fd())), kElements, 2, local_rank);
  EXPECT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE((*memory)->ShareWeights().ok());
  return *std::move(memory);
}

TEST(NodeMemory, KeptWeightsAreARanksOwnAndOutliveTheNode) {
  auto node = *NodeMemory::Create(kElements, 2);
  for (uint64_t i = 0; i < kElements; ++i) node->weights()[i] = static_cast<float>(i);
  auto first = Attached(*node, 0), second = Attached(*node, 1);
  float* const own = first->weights();
  ASSERT_TRUE(first->KeepWeights().ok());
  EXPECT_EQ(first->weights(), own) << "the address stays";
  own[7] = -1;
  ASSERT_TRUE(first->KeepWeights().ok());
  EXPECT_EQ(own[7], -1.0f) << "a second call takes nothing back";
  EXPECT_EQ(node->weights()[7], 7.0f);
  EXPECT_EQ(second->weights()[7], 7.0f);
  first.reset();
  second.reset();
  node.reset();
  EXPECT_EQ(own[7], -1.0f);
  EXPECT_EQ(own[kElements - 1], static_cast<float>(kElements - 1));
}

TEST(NodeMemory, ShowsRanksTheStepsThatWereMadeBefore) {
  auto node = *NodeMemory::Create(kElements, 2);
  node->BeginAt(6, 5);
  for (uint32_t c = 0; c < 5; ++c) {
    EXPECT_EQ(node->consumed(c), 6u);
    EXPECT_EQ(node->landed(c), 0u);
  }
  EXPECT_EQ(node->consumed(5), 0u) << "the job has no such chunk";
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(node->ready(r, 4), 6u);
    EXPECT_EQ(node->rank(r).published, 30u);
    EXPECT_EQ(node->rank(r).complete, 6u);
  }
}

}  // namespace
}  // namespace strata::worker
