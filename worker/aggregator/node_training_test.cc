#include "worker/aggregator/node_training.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/event_fd.h"
#include "common/job/arena.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/exchange/core/peerless_core.h"

namespace strata::worker {
namespace {

constexpr uint32_t kChunks = 2;

// Takes each sum as soon as it is submitted, and answers it.
class TakingCore final : public PeerlessCore {
 public:
  TakingCore(AggregatorCore* core, NodeArenas* node, std::vector<StepFacts>* taken)
      : core_(*core), node_(*node), taken_(*taken) {}

  absl::Status Submit(ChunkId chunk, absl::Time, CoreActions*) override {
    const uint64_t clock = core_.clock(chunk);
    taken_.push_back(node_.TakeSum(chunk, clock).step);
    return node_.Landed(chunk, clock);
  }

 private:
  AggregatorCore& core_;
  NodeArenas& node_;
  std::vector<StepFacts>& taken_;
};

// Ranks 4 and 5 with two chunks, without processes.
class ChunkIntakeTest : public testing::Test {
 protected:
  ChunkIntakeTest()
      : memory_(*NodeMemory::Create(kChunks * kChunkElementsMin, 2)),
        core_(RankId(4), 2, kChunks),
        arenas_(memory_.get(), &core_, ChunkMap(kChunks * kChunkElementsMin, kChunkElementsMin),
                kernels::Cpu()),
        exchange_(
            WithoutPeers(std::make_unique<TakingCore>(&core_, &arenas_, &taken_), -1, &clock_)),
        intake_(memory_.get(), &core_, &arenas_, exchange_.get()) {
    EXPECT_EQ(exchange_->Start(), absl::OkStatus());
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
  NodeArenas arenas_;
  std::vector<StepFacts> taken_;
  const RealClock clock_;
  const std::unique_ptr<Exchange> exchange_;
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
      EXPECT_EQ(taken_.back().rate, rate);
      EXPECT_EQ(taken_.back().samples, 21u);
    }
  }
  EXPECT_EQ(taken_.size(), 12u);
}

TEST_F(ChunkIntakeTest, RanksThatSayOtherRatesEndTheJob) {
  for (const uint32_t rank : {0, 1}) Publish(rank, 0, 0, 0.5f);
  ASSERT_TRUE(intake_.Look().ok());
  for (const uint32_t rank : {0, 1}) Publish(rank, 0, 1, rank == 0 ? 0.5f : 0.25f);
  EXPECT_EQ(intake_.Look().status(),
            absl::InvalidArgumentError("rank 4 says learning rate 0.5 at step 1, rank 5 0.25"));
  EXPECT_EQ(taken_.size(), 1u);
}

constexpr char kRecord[] =
    "job { exchange: RING program { path: '/p' } optimizer { mean {} } consistency { sync {} } } "
    "view { nodes {} }";

proto::JobRecord RecordOf(const std::string& more) {
  proto::JobRecord record;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(kRecord, &record));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(more, &record)) << more;
  return record;
}

TEST(OneNodeCore, IsForTheMeanOfOneNodeAsItIs) {
  EXPECT_TRUE(IsMeanOfOneNode(RecordOf("")));
  for (const char* more :
       {"view { nodes {} }", "job { exchange: PARAMETER_SERVER }", "job { optimizer { sgd {} } }",
        "job { device: GPU }", "job { consistency { lazy { local_steps: 2 } } }",
        "job { consistency { lazy { double_buffering: true } } }", "job { trace { steps: 1 } }"}) {
    EXPECT_FALSE(IsMeanOfOneNode(RecordOf(more))) << more;
  }
}

TEST(OneNodeCore, AChunkThatIsSubmittedLandsAtOnceAndNoneAfterTheEnd) {
  constexpr uint64_t kElements = 600;
  const ChunkMap map(kElements, 256);
  const auto memory = *NodeMemory::Create(kElements, 2);
  AggregatorCore core(RankId(0), 2, map.chunks());
  NodeArenas arenas(memory.get(), &core, map, kernels::Cpu());
  const EventFd wake = *EventFd::Create();
  const RealClock clock;
  const auto exchange =
      WithoutPeers(std::make_unique<OneNodeCore>(&arenas, map.chunks()), wake.fd(), &clock);
  ASSERT_EQ(exchange->Start(), absl::OkStatus());
  ASSERT_EQ(exchange->phase(), Exchange::Phase::kTraining);
  ASSERT_EQ(exchange->Poll(absl::Seconds(1)), absl::OkStatus());
  for (uint64_t clock = 0; clock < 2; ++clock) {
    for (uint32_t r = 0; r < 2; ++r) {
      for (uint64_t i = 0; i < kElements; ++i) memory->gradients(r)[i] = i + r + clock;
      memory->rank(r).samples[clock] = 1;
    }
    const std::vector<uint64_t> ready(2, clock + 1);
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      ASSERT_TRUE(*core.OnReady(ChunkId(c), ready));
      ASSERT_EQ(exchange->Submit(ChunkId(c)), absl::OkStatus());
      EXPECT_EQ(memory->landed(c).load(), clock + 2);
    }
    for (uint64_t i = 0; i < kElements; ++i) ASSERT_EQ(memory->weights()[i], i + 0.5f + clock);
  }
  ASSERT_EQ(exchange->Finish(2), absl::OkStatus());
  EXPECT_EQ(exchange->phase(), Exchange::Phase::kFinished);
  EXPECT_EQ(exchange->Submit(ChunkId(0)).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace strata::worker
