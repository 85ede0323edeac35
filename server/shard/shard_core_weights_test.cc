#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/shard_job.h"
#include "server/testing/shard_harness.h"

// Jobs whose nodes all begin with the weights of the node that has rank 0.

namespace strata::server {

namespace {

using wire::ErrorCode;
using wire::Op;

// Two nodes, one chunk of 4 elements.
class FirstWeights : public testing::Test {
 protected:
  FirstWeights() { Install("optimizer { sgd {} } schedule { base_lr: 1 }"); }

  void Install(const std::string& job_text) {
    record_ = MakeRecord({.elements = 4, .job_text = job_text});
    record_.set_takes_first_weights(true);
    shard_.emplace();
    ASSERT_TRUE(shard_->core().Install(record_, ShardId(0)).ok());
    a_ = shard_->Join(record_, 0);
    b_ = shard_->Join(record_, 1);
  }

  wire::Frame Ask(uint32_t node) const {
    wire::Frame ask = ControlFrame(record_, Op::kInit, node, 0, 0);
    ask.header.flags = wire::kFlagEmpty;
    return ask;
  }
  wire::Frame Push(uint32_t node, uint64_t clock) const {
    return PushFrame(record_, node, 0, clock, {1, 1, 1, 1}, 1);
  }

  proto::JobRecord record_;
  std::optional<ShardHarness> shard_;
  transport::ConnectionId a_, b_;
};

TEST_F(FirstWeights, ANodeThatAsksIsToldToComeAgainUntilTheyAreThere) {
  EXPECT_EQ(shard_->DeliverForOne(b_, Ask(1)).header.op, Op::kRetry);
  const wire::Frame kept = shard_->DeliverForOne(a_, InitFrame(record_, 0, 0, {1, 2, 3, 4}));
  EXPECT_EQ(kept.header.op, Op::kInitOk);
  EXPECT_TRUE(kept.payload.empty());
  const wire::Frame given = shard_->DeliverForOne(b_, Ask(1));
  EXPECT_EQ(given.header.op, Op::kFirst);
  EXPECT_EQ(ToFloats(given), (std::vector<float>{1, 2, 3, 4}));
}

// In async the first node does not wait for the others.
TEST_F(FirstWeights, AreThoseOfTheBeginningHoweverFarOtherNodesHaveCome) {
  Install("consistency { async {} } optimizer { sgd {} } schedule { base_lr: 1 }");
  shard_->DeliverForOne(a_, InitFrame(record_, 0, 0, {1, 2, 3, 4}));
  EXPECT_EQ(ToFloats(shard_->DeliverForOne(a_, Push(0, 0))), (std::vector<float>{0, 1, 2, 3}));
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(ToFloats(shard_->DeliverForOne(b_, Ask(1))), (std::vector<float>{1, 2, 3, 4}));
  }
  const uint64_t held = shard_->core().NextReports().at(JobId(7)).memory_bytes;
  EXPECT_EQ(ToFloats(shard_->DeliverForOne(b_, Push(1, 0))), (std::vector<float>{-1, 0, 1, 2}));
  EXPECT_LT(shard_->core().NextReports().at(JobId(7)).memory_bytes, held);
  // They are not needed any more; a replacement process continues with the current weights.
  EXPECT_EQ(ToFloats(shard_->DeliverForOne(b_, Ask(1))), (std::vector<float>{-1, 0, 1, 2}));
}

TEST_F(FirstWeights, AreOfferedByTheNodeOfRank0AndByNoOther) {
  const wire::Frame other = shard_->DeliverForOne(b_, InitFrame(record_, 1, 0, {1, 2, 3, 4}));
  EXPECT_EQ(other.header.op, Op::kError);
  EXPECT_EQ(other.header.error, ErrorCode::kConflict);
  const wire::Frame asking = shard_->DeliverForOne(a_, Ask(0));
  EXPECT_EQ(asking.header.error, ErrorCode::kConflict);
  record_.set_takes_first_weights(false);
  shard_.emplace();
  ASSERT_TRUE(shard_->core().Install(record_, ShardId(0)).ok());
  EXPECT_EQ(shard_->DeliverForOne(shard_->Join(record_, 1), Ask(1)).header.error,
            ErrorCode::kConflict);
}

// Jobs that resume from a checkpoint: the view of their shards.

using transport::ConnectionId;

// Two nodes, one chunk of 4 elements.
class ResumedJob : public testing::Test {
 protected:
  void Install(const std::string& job_text) {
    record_ = MakeRecord({.elements = 4, .job_text = job_text});
    record_.mutable_resume()->set_clock(6);
    job_ = std::make_unique<ShardJob>(*MakeShardPlan(record_, ShardId(0)), ShardCopy::kPrimary,
                                      kernels::Cpu(), pool_, &scratch_, &refusals_, &cuts_, nullptr,
                                      nullptr, nullptr);
    for (uint32_t node = 0; node < 2; ++node) {
      wire::Hello hello{
          .protocol = kProtocolVersion, .cluster = record_.cluster(), .token = record_.token()};
      std::vector<ShardAction> actions;
      ASSERT_TRUE(job_->OnHello(ConnectionId(node), HelloFrame(record_, node), hello,
                                absl::UnixEpoch(), &actions));
    }
  }
  // The clock is 6.
  void Restore(std::vector<float> weights, uint64_t version, std::vector<uint64_t> applied) {
    const ChunkImage image = {
        .clock = 6,
        .weights = {.version = version, .updates = version, .weights = ToBytes(weights)},
        .applied = std::move(applied)};
    ASSERT_EQ(job_->FindChunk(ChunkId(0))->Restore(image), absl::OkStatus());
  }
  // Returns the answer to the node of `frame`.
  std::vector<wire::Frame> Deliver(const wire::Frame& frame) {
    std::vector<ShardAction> actions;
    job_->OnFrame(ConnectionId(frame.header.node), frame, absl::UnixEpoch(), &actions);
    std::vector<wire::Frame> frames;
    for (ShardAction& action : actions) {
      if (action.connection == ConnectionId(frame.header.node)) frames.push_back(action.frame);
    }
    return frames;
  }
  wire::Frame DeliverForOne(const wire::Frame& frame) {
    std::vector<wire::Frame> frames = Deliver(frame);
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? wire::Frame() : frames[0];
  }
  wire::Frame Ask(uint32_t node) const {
    wire::Frame ask = ControlFrame(record_, Op::kInit, node, 0, 0);
    ask.header.flags = wire::kFlagEmpty;
    return ask;
  }
  wire::Frame Push(uint32_t node, uint64_t clock, uint64_t base_version) const {
    return PushFrame(record_, node, 0, clock, {1, 1, 1, 1}, 1, base_version);
  }

  BufferPool pool_;
  numerics::EncoderScratch scratch_;
  Refusals refusals_;
  std::vector<ShardCut> cuts_;
  proto::JobRecord record_;
  std::unique_ptr<ShardJob> job_;
};

constexpr char kResumedSync[] = "optimizer { sgd {} } schedule { base_lr: 1 }";

TEST_F(ResumedJob, GivesEveryNodeItsWeightsTheirVersionAndHowManyPushesItHas) {
  Install(kResumedSync);
  EXPECT_EQ(DeliverForOne(Ask(0)).header.op, Op::kRetry) << "before the chunk is restored";
  Restore({1, 2, 3, 4}, 6, {});
  for (uint32_t node = 0; node < 2; ++node) {
    const wire::Frame first = DeliverForOne(Ask(node));
    EXPECT_EQ(first.header.op, Op::kFirst);
    EXPECT_EQ(ToFloats(first), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(first.header.version, 6u);
    EXPECT_EQ(first.header.received, 6u);
  }
  EXPECT_TRUE(Deliver(Push(0, 6, 6)).empty());
  EXPECT_EQ(ToFloats(DeliverForOne(Push(1, 6, 6))), (std::vector<float>{0, 1, 2, 3}));
}

// Versions do not equal clocks if the checkpoint is of another mode.
TEST_F(ResumedJob, AProcessThatTakesANodesPlaceIsGivenTheWeightsOfItsClock) {
  Install(std::string(kResumedSync) + " replace { per_hour: 1 }");
  Restore({1, 2, 3, 4}, 11, {});
  const auto pull = [&](uint64_t clock) {
    return DeliverForOne(ControlFrame(record_, Op::kPull, 1, 0, clock));
  };
  EXPECT_EQ(ToFloats(pull(6)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(pull(5).header.flags, wire::kFlagEmpty);
  for (uint32_t node = 0; node < 2; ++node) Deliver(Push(node, 6, 11));
  EXPECT_EQ(ToFloats(pull(6)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(pull(6).header.version, 11u);
  EXPECT_EQ(ToFloats(pull(7)), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(pull(7).header.version, 12u);
}

TEST_F(ResumedJob, RefusesFirstWeightsOfAnyNode) {
  Install(kResumedSync);
  Restore({1, 2, 3, 4}, 6, {});
  for (uint32_t node = 0; node < 2; ++node) {
    const wire::Frame refused = DeliverForOne(InitFrame(record_, node, 0, {1, 2, 3, 4}));
    EXPECT_EQ(refused.header.error, ErrorCode::kConflict);
    EXPECT_EQ(
        std::string(reinterpret_cast<const char*>(refused.payload.data()), refused.payload.size()),
        std::string("the job goes on from a checkpoint").substr(0, 4 * sizeof(float)));
  }
}

// A late node gets the current weights.
TEST_F(ResumedJob, InAsyncSaysHowManyPushesOfEachNodeAreInTheWeights) {
  Install("consistency { async {} } optimizer { sgd {} } schedule { base_lr: 1 }");
  Restore({1, 2, 3, 4}, 14, {8, 6});
  EXPECT_EQ(DeliverForOne(Ask(0)).header.received, 8u);
  // In the weights already: answered, not applied.
  for (const uint64_t clock : {6, 7}) {
    const wire::Frame again = DeliverForOne(Push(0, clock, 14));
    EXPECT_EQ(again.header.op, Op::kAnswer);
    EXPECT_EQ(again.header.clock, clock);
    EXPECT_EQ(ToFloats(again), (std::vector<float>{1, 2, 3, 4}));
  }
  EXPECT_EQ(ToFloats(DeliverForOne(Push(0, 8, 14))), (std::vector<float>{0, 1, 2, 3}));
  const wire::Frame first = DeliverForOne(Ask(1));
  EXPECT_EQ(first.header.received, 6u);
  EXPECT_EQ(first.header.version, 15u);
  EXPECT_EQ(ToFloats(first), (std::vector<float>{0, 1, 2, 3}));
}

// The shard corrects gradients by these.
TEST_F(ResumedJob, WithDelayCompensationGivesALateNodeTheWeightsThatItsPushesAreCountedFrom) {
  Install(
      "consistency { async { delay_compensation { lambda: 0.04 } } } optimizer { sgd {} } "
      "schedule { base_lr: 1 }");
  Restore({1, 2, 3, 4}, 14, {6, 6});
  DeliverForOne(Push(0, 6, 14));
  const wire::Frame first = DeliverForOne(Ask(1));
  EXPECT_EQ(first.header.version, 14u);
  EXPECT_EQ(ToFloats(first), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(DeliverForOne(Push(1, 6, 14)).header.op, Op::kAnswer);
}

// Otherwise pushes would look as old as the job, and be damped accordingly.
TEST_F(ResumedJob, WhereAnswersAreEncodedTheCopyHasTheVersionOfTheWeightsThatItWasMadeOf) {
  Install(
      "consistency { async { damping: INVERSE_STALENESS } } optimizer { sgd {} } "
      "schedule { base_lr: 1 } pull { codec: FP16 }");
  Restore({1, 2, 3, 4}, 14, {6, 6});
  EXPECT_EQ(DeliverForOne(Ask(1)).header.version, 14u);
}

// Checkpoints that a shard cuts, and jobs that resume from one.

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two chunks of 4 elements, one node.
proto::JobRecord CheckpointRecord(uint32_t shards) {
  JobOptions options;
  options.ranks = {1};
  options.shards = shards;
  options.job_text =
      "optimizer { sgd {} } schedule { base_lr: 1 } checkpoint { dir: '/c' every_steps: 1 }";
  return MakeRecord(options);
}

ChunkImage Image(uint64_t begin, size_t elements = 4) {
  ChunkImage image{.begin = begin, .clock = 6};
  image.weights.version = image.weights.updates = 6;
  image.weights.weights = ToBytes(std::vector<float>(elements, 1));
  return image;
}

absl::Status Install(std::vector<ChunkImage> images, uint32_t shards = 1) {
  proto::JobRecord record = CheckpointRecord(shards);
  record.mutable_resume()->set_clock(6);
  return ShardCore(kernels::Cpu()).Install(record, ShardId(0), images);
}

TEST(ShardCoreCheckpoint, AShardTakesTheImagesOfItsOwnChunks) {
  EXPECT_EQ(Install({Image(4), Image(0)}), absl::OkStatus());
  EXPECT_EQ(Install({Image(0)}, /*shards=*/2), absl::OkStatus()) << "the other chunk is elsewhere";
}

TEST(ShardCoreCheckpoint, ImagesThatDoNotFitAreRefusedByName) {
  EXPECT_EQ(Install({Image(0)}),
            absl::InvalidArgumentError(
                "job 7: the checkpoint has no elements from 4 on, where chunk 1 begins"));
  EXPECT_EQ(Install({Image(0), Image(4), Image(0)}),
            absl::InvalidArgumentError("job 7: the checkpoint's chunk 0: it is there twice"));
  const absl::Status other = Install({Image(0), Image(4, 3)});
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), testing::HasSubstr("job 7: the checkpoint's chunk 1: "));
}

TEST(ShardCoreCheckpoint, AJobIsTakenInInTurnsAndIsNotHereBefore) {
  proto::JobRecord record = CheckpointRecord(1);
  record.mutable_resume()->set_clock(6);
  const std::vector<ChunkImage> images = {Image(0), Image(4)};
  ShardCore shard(kernels::Cpu());
  EXPECT_EQ(*shard.BeginInstall(record, ShardId(0)), false);
  EXPECT_EQ(*shard.BeginInstall(record, ShardId(0)), false) << "asked again";
  const absl::Span<const ChunkImage> all = images;
  EXPECT_EQ(shard.InstallMore(JobId(7), all.subspan(0, 1)), absl::OkStatus());
  EXPECT_EQ(shard.InstallMore(JobId(7), all.subspan(1, 1)), absl::OkStatus());
  EXPECT_THAT(shard.Counters(), IsEmpty());
  EXPECT_EQ(shard.EndInstall(JobId(7)), absl::OkStatus());
  EXPECT_THAT(shard.Counters(), SizeIs(1));
  EXPECT_EQ(*shard.BeginInstall(record, ShardId(0)), true);
  EXPECT_EQ(shard.EndInstall(JobId(7)), absl::OkStatus()) << "asked again";
  // A job that is removed meanwhile is gone.
  ShardCore other(kernels::Cpu());
  std::vector<ShardAction> actions;
  EXPECT_EQ(*other.BeginInstall(record, ShardId(0)), false);
  other.Remove(JobId(7), &actions);
  EXPECT_EQ(other.InstallMore(JobId(7), images).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(other.EndInstall(JobId(7)).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(other.Counters(), IsEmpty());
}

class CuttingShard : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(shard_.core().Install(record_, ShardId(0)), absl::OkStatus());
    connection_ = shard_.Join(record_, 0);
    for (uint32_t chunk : {0, 1}) {
      shard_.Deliver(connection_, InitFrame(record_, 0, chunk, {1, 1, 1, 1}));
    }
  }
  void Push(uint32_t chunk, uint64_t clock) {
    shard_.Deliver(connection_, PushFrame(record_, 0, chunk, clock, {1, 1, 1, 1}, 4, clock));
  }
  std::vector<ShardCut> Step(uint64_t clock) {
    for (uint32_t chunk : {0, 1}) Push(chunk, clock);
    return shard_.core().TakeCuts();
  }

  const proto::JobRecord record_ = CheckpointRecord(1);
  ShardHarness shard_;
  transport::ConnectionId connection_;
};

TEST_F(CuttingShard, GivesACutOnceAllItsChunksHaveComeToTheClock) {
  Push(0, 0);
  EXPECT_FALSE(shard_.core().has_cuts());
  Push(1, 0);
  EXPECT_TRUE(shard_.core().has_cuts());
  const std::vector<ShardCut> cuts = shard_.core().TakeCuts();
  ASSERT_THAT(cuts, SizeIs(1));
  EXPECT_EQ(cuts[0].job, JobId(7));
  EXPECT_EQ(cuts[0].shard, ShardId(0));
  EXPECT_EQ(cuts[0].clock, 1);
  EXPECT_THAT(cuts[0].images, SizeIs(2));
  EXPECT_THAT(shard_.core().TakeCuts(), IsEmpty());
}

TEST_F(CuttingShard, HoldsNoMoreThanItsMemoryIsPromisedUntilCutsAreLetGoOf) {
  EXPECT_EQ(Step(0).at(0).problem, "");
  EXPECT_EQ(Step(1).at(0).problem, "");
  const std::vector<ShardCut> third = Step(2);
  ASSERT_THAT(third, SizeIs(1));
  EXPECT_THAT(third[0].problem, testing::HasSubstr("checkpoint of clock 1 is not written yet"));
  EXPECT_THAT(third[0].images, IsEmpty());
  shard_.core().ReleaseCut(JobId(7), ShardId(1), 1);  // another shard's
  shard_.core().ReleaseCut(JobId(8), ShardId(0), 1);  // another job's
  EXPECT_NE(Step(3).at(0).problem, "");
  shard_.core().ReleaseCut(JobId(7), ShardId(0), 1);
  EXPECT_EQ(Step(4).at(0).problem, "");
}

}  // namespace

}  // namespace strata::server
