#include "worker/aggregator/chunk_intake.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/job/arena.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "worker/aggregator/host/node_arenas.h"

namespace strata::worker {
namespace {

constexpr uint32_t kChunks = 2;

// Takes each sum as soon as it is submitted, and answers it.
class TakingExchange final : public Exchange {
 public:
  explicit TakingExchange(AggregatorCore* core) : core_(*core) {}

  void Join(NodeArenas* node) { node_ = node; }
  std::vector<StepFacts> taken;

  absl::Status Start() override { return absl::OkStatus(); }
  absl::Status Submit(ChunkId chunk) override {
    const uint64_t clock = core_.clock(chunk);
    taken.push_back(node_->TakeSum(chunk, clock).step);
    return node_->Landed(chunk, clock);
  }
  absl::Status Finish(uint64_t) override { return absl::OkStatus(); }
  absl::Status Poll(absl::Duration) override { return absl::OkStatus(); }
  Phase phase() const override { return Phase::kTraining; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override { return 0; }
  void AddActivity(proto::NodeActivity*) const override {}

 private:
  AggregatorCore& core_;
  NodeArenas* node_ = nullptr;
  const ExchangeCounters counters_;
};

// Ranks 4 and 5 with two chunks, without processes.
class ChunkIntakeTest : public testing::Test {
 protected:
  ChunkIntakeTest()
      : memory_(*NodeMemory::Create(kChunks * kChunkElementsMin, 2)),
        core_(RankId(4), 2, kChunks),
        exchange_(&core_),
        arenas_(memory_.get(), &core_, ChunkMap(kChunks * kChunkElementsMin, kChunkElementsMin),
                kernels::Cpu()),
        intake_(memory_.get(), &core_, &arenas_, &exchange_) {
    exchange_.Join(&arenas_);
  }

  // As a rank does it.
  void Publish(uint32_t rank, uint32_t chunk, uint64_t step, float rate) {
    RankBlock& block = memory_->rank(rank);
    block.samples[step % kSampleSlots] = 10 + rank;
    block.rates[step % kSampleSlots] = rate;
    memory_->ready(rank, chunk) = step + 1;
    block.published.fetch_add(1);
  }

  std::unique_ptr<NodeMemory> memory_;
  AggregatorCore core_;
  TakingExchange exchange_;
  NodeArenas arenas_;
  ChunkIntake intake_;
};

TEST_F(ChunkIntakeTest, EachSumComesWithTheRateOfItsStep) {
  for (uint64_t step = 0; step < 6; ++step) {
    const float rate = 1.0f / static_cast<float>(step + 1);
    for (const uint32_t chunk : {1, 0}) {
      for (const uint32_t rank : {0, 1}) Publish(rank, chunk, step, rate);
      const absl::StatusOr<bool> any = intake_.Look();
      ASSERT_TRUE(any.ok()) << any.status();
      EXPECT_TRUE(*any);
      EXPECT_EQ(exchange_.taken.back().rate, rate);
      EXPECT_EQ(exchange_.taken.back().samples, 21u);
    }
  }
  EXPECT_EQ(exchange_.taken.size(), 12u);
}

TEST_F(ChunkIntakeTest, RanksThatSayOtherRatesEndTheJob) {
  for (const uint32_t rank : {0, 1}) Publish(rank, 0, 0, 0.5f);
  ASSERT_TRUE(intake_.Look().ok());
  for (const uint32_t rank : {0, 1}) Publish(rank, 0, 1, rank == 0 ? 0.5f : 0.25f);
  EXPECT_EQ(intake_.Look().status(),
            absl::InvalidArgumentError("rank 4 says learning rate 0.5 at step 1, rank 5 0.25"));
  EXPECT_EQ(exchange_.taken.size(), 1u);
}

}  // namespace
}  // namespace strata::worker
