#include "worker/aggregator/core/node_budget.h"

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "worker/contract/node_memory.h"

namespace strata::worker {
namespace {

proto::Placement Placement(int shards, uint32_t chunk_elements) {
  proto::Placement placement;
  placement.set_chunk_elements(chunk_elements);
  for (int i = 0; i < shards; ++i) placement.add_shard_endpoints("tcp://127.0.0.1:7100");
  return placement;
}

proto::Job JobWith(uint32_t window) {
  proto::Job job;
  FillDefaults(&job);
  job.set_window(window);
  return job;
}

// 1 MiB of weights, 2 ranks, 3 shards, window 4, chunks of 16 KiB.
TEST(NodeBudget, IsSharedMemoryFirstWeightsAndMessages) {
  const MemoryFormula need = NodeMemoryNeed(JobWith(4), 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 3u);
  EXPECT_EQ(need.parts[0].bytes, NodeOffsets(1 << 18, 2).total);
  EXPECT_EQ(need.parts[1].bytes, 2u << 20);
  EXPECT_EQ(need.parts[2].bytes, 2u * 3 * 4 * (16 << 10));
  EXPECT_EQ(need.ToString(),
            "5.4 MiB: shared memory (1 + 2) x 1.0 MiB and its counts 3.0 MiB + first weights 2 x "
            "1.0 MiB 2.0 MiB + messages 2 x 3 x 4 x 16.0 KiB 384.0 KiB");
}

TEST(NodeBudget, HasNoMessagesWhereThePlacementIsNotKnown) {
  EXPECT_EQ(NodeMemoryNeed(JobWith(4), 4, 1 << 18, 2, {}).parts.size(), 2u);
}

TEST(NodeBudget, MessagesAreNoMoreThanTheArenaBothWays) {
  EXPECT_EQ(NodeMemoryNeed(JobWith(64), 4, 1 << 18, 1, Placement(8, 4096)).parts[2].bytes,
            2u << 20);
}

TEST(NodeBudget, OfEncodedPushesHasWhatWasNotSent) {
  proto::Job job = JobWith(4);
  job.mutable_push()->set_codec(proto::Encoding::FP16);
  MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 4u);
  EXPECT_EQ(need.parts[2].bytes, 1u << 20);
  job.mutable_push()->set_codec(proto::Encoding::DGC);
  need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 5u);
  EXPECT_EQ(need.parts[2].bytes, 2u << 20);
  EXPECT_EQ(need.parts[3].bytes, 4u * (16 << 10));
}

// Momentum: one state vector.
TEST(NodeBudget, OfARingIsItsShareOfWeightsAndStateAndTheChunksUnderWay) {
  proto::Job job = JobWith(4);
  job.set_exchange(proto::Job::RING);
  const MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(0, 4096));
  ASSERT_EQ(need.parts.size(), 4u);
  EXPECT_EQ(need.parts[2].bytes, 2u * ((1 << 18) + 1));
  EXPECT_EQ(need.parts[3].bytes, 4u * 4 * (16 << 10));
  job.mutable_push()->set_codec(proto::Encoding::FP16);
  EXPECT_EQ(NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(0, 4096)).parts[2].bytes,
            3u * ((1 << 18) + 1));
}

TEST(NodeBudget, OfARingThatGoesOnWithoutNodesHasWhatIsKeptForTheNextOne) {
  proto::Job job = JobWith(4);
  job.set_exchange(proto::Job::RING);
  job.set_on_loss(proto::Job::DROP);
  const MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(0, 4096));
  ASSERT_EQ(need.parts.size(), 6u);
  EXPECT_EQ(need.parts[2].what, "optimizer of its own (3 + 1) x 1.0 MiB");
  EXPECT_EQ(need.parts[3].bytes, (1u << 20) / 4 + 1) << "means have no state";
  EXPECT_EQ(need.parts[5].what, "kept for a new ring 2 x 1.0 MiB");
  EXPECT_EQ(need.parts[5].bytes, 2u << 20);
}

// Adam: two state vectors.
TEST(NodeBudget, LocalStepsTakeWeightsTheirBeginAndTheOptimizersState) {
  proto::Job job = JobWith(4);
  job.clear_optimizer();
  job.mutable_optimizer()->mutable_adam();
  job.mutable_consistency()->set_preset("diloco(16)");
  FillDefaults(&job);
  MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 5u);
  EXPECT_EQ(need.parts[2].bytes, 4u << 20);
  EXPECT_EQ(need.parts[3].bytes, 16u << 10);
  // In a ring the slices' optimizer is the outer one: Nesterov, one vector.
  job.set_exchange(proto::Job::RING);
  need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(0, 4096));
  EXPECT_EQ(need.parts[4].bytes, 2u * ((1 << 18) + 1));
}

TEST(NodeBudget, DoubleBufferingTakesWhatWaitsEachWay) {
  proto::Job job = JobWith(4);
  job.mutable_consistency()->set_preset("delay1");
  FillDefaults(&job);
  const MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 4u);
  EXPECT_EQ(need.parts[2].bytes, 2u << 20);
}

TEST(NodeBudget, ATraceTakesAFixedAmount) {
  proto::Job job = JobWith(4);
  const uint64_t before = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096)).total();
  job.mutable_trace()->set_steps(1000);
  EXPECT_EQ(NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096)).total(), before + (512 << 10));
}

TEST(NodeBudget, OfAJobOnGpusIsFirstWeightsAndPinnedMemoryAndAnswers) {
  proto::Job job = JobWith(4);
  job.set_device(proto::Job::GPU);
  job.mutable_push()->set_codec(proto::Encoding::DGC);
  const NodeOffsets offsets(1 << 18, 2);
  MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 4u) << "what was not sent is the GPU's";
  EXPECT_EQ(need.parts[0].bytes, offsets.total - (2u << 20));
  EXPECT_EQ(need.parts[1].bytes, 2u << 20);
  EXPECT_EQ(need.parts[2].bytes, 2u << 20);
  EXPECT_EQ(need.parts[3].bytes, 3u * 4 * (16 << 10));
  EXPECT_EQ(need.parts[0].what, "shared memory 1.0 MiB and its counts");
  // Layers run on the host, and their pushes are encoded there.
  job.mutable_push()->set_codec(proto::Encoding::FP16);
  job.mutable_consistency()->set_preset("delay1");
  FillDefaults(&job);
  need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(3, 4096));
  ASSERT_EQ(need.parts.size(), 6u);
  EXPECT_EQ(need.parts[3].bytes, 2u << 20) << need.ToString();
  EXPECT_EQ(need.parts[4].bytes, 1u << 20);
}

TEST(NodeBudget, OfAJobWithNcclIsFirstWeightsAlone) {
  proto::Job job = JobWith(4);
  job.set_device(proto::Job::GPU);
  job.set_exchange(proto::Job::NCCL);
  const MemoryFormula need = NodeMemoryNeed(job, 4, 1 << 18, 2, Placement(0, 4096));
  ASSERT_EQ(need.parts.size(), 2u);
  EXPECT_EQ(need.total(), NodeOffsets(1 << 18, 2).total);
}

TEST(NodeBudget, AnArenaBeyondAllMemoryDoesNotWrapAround) {
  EXPECT_EQ(NodeMemoryNeed(JobWith(4), 4, UINT64_MAX, 2, {}).total(), UINT64_MAX);
}

}  // namespace
}  // namespace strata::worker
