#include "worker/aggregator/core/rank_group.h"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/os/framed_channel.h"
#include "gtest/gtest.h"
#include "worker/contract/rank_protocol.pb.h"
#include "worker/contract/rank_socket.h"

namespace strata::worker {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);

class RankGroupTest : public testing::Test {
 protected:
  void SetUp() override {
    launch_.mutable_record()->set_token(77);
    launch_.set_aggregator_socket(
        absl::StrCat("strata-test-", getpid(), "-",
                     testing::UnitTest::GetInstance()->current_test_info()->name()));
    Create(1);
  }
  void Create(uint32_t local_ranks) {
    ranks_.reset();
    launch_.set_local_ranks(local_ranks);
    auto ranks = RankGroup::Create(launch_);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    ranks_ = *std::move(ranks);
  }
  void AwaitAllAttached() {
    const absl::Time deadline = absl::Now() + kDeadline;
    while (!ranks_->all_attached() && absl::Now() < deadline) {
      ASSERT_EQ(ranks_->Receive(), absl::OkStatus());
    }
    EXPECT_TRUE(ranks_->all_attached());
  }

  UniqueFd Connect() {
    absl::StatusOr<UniqueFd> fd = ConnectTo(launch_.aggregator_socket(), kDeadline);
    EXPECT_TRUE(fd.ok()) << fd.status();
    return *std::move(fd);
  }
  static proto::RankMessage Attach(uint64_t token, uint32_t local_rank = 0) {
    proto::RankMessage message;
    message.mutable_attach()->set_local_rank(local_rank);
    message.mutable_attach()->set_protocol_version(kProtocolVersion);
    message.mutable_attach()->set_token(token);
    proto::Segment* segment = message.mutable_attach()->mutable_layout()->add_segments();
    segment->set_name("w");
    segment->add_shape(4);
    message.mutable_attach()->mutable_layout()->set_elements(4);
    return message;
  }
  // Returns the error for two ranks with these offers, in this order.
  std::string Difference(const proto::Offer& first, const proto::Offer& second) {
    Create(2);
    FramedChannel ranks[] = {FramedChannel(Connect()), FramedChannel(Connect())};
    for (uint32_t r : {0, 1}) EXPECT_TRUE(ranks[r].Send(Attach(77, r)).ok());
    AwaitAllAttached();
    for (uint32_t r : {0, 1}) {
      proto::RankMessage message;
      *message.mutable_offer() = r == 0 ? first : second;
      EXPECT_TRUE(ranks[r].Send(message).ok());
    }
    const absl::Time deadline = absl::Now() + kDeadline;
    absl::Status status;
    while (status.ok() && !ranks_->all_offered() && absl::Now() < deadline) {
      status = ranks_->Receive();
    }
    return std::string(status.message());
  }
  // Receives until this many have been refused.
  void AwaitRefused(uint64_t count) {
    const absl::Time deadline = absl::Now() + kDeadline;
    while (ranks_->refused() < count && absl::Now() < deadline) {
      ASSERT_EQ(ranks_->Receive(), absl::OkStatus());
    }
    EXPECT_EQ(ranks_->refused(), count);
  }

  proto::Launch launch_;
  std::unique_ptr<RankGroup> ranks_;
};

TEST_F(RankGroupTest, NoiseIsClosedAndCounted) {
  UniqueFd noise = Connect();
  ASSERT_EQ(send(noise.get(), "\xff\xff\xff\xff\xff\xff", 6, MSG_NOSIGNAL), 6);
  AwaitRefused(1);
  char byte = 0;
  EXPECT_LE(recv(noise.get(), &byte, 1, 0), 0) << "closed";
  Connect().Reset();
  AwaitRefused(2);
  EXPECT_FALSE(ranks_->all_attached());
}

TEST_F(RankGroupTest, ARankOfAnotherJobIsToldSoAndCounted) {
  FramedChannel impostor(Connect());
  ASSERT_TRUE(impostor.Send(Attach(78)).ok());
  AwaitRefused(1);
  EXPECT_FALSE(ReceiveDescriptors(impostor.fd())->memory.valid());
  proto::AggregatorMessage told;
  ASSERT_TRUE(impostor.Receive(&told, kDeadline).ok());
  EXPECT_EQ(told.stopped(), "not a rank of this job");
  EXPECT_FALSE(ranks_->all_attached());
}

TEST_F(RankGroupTest, SilentConnectionsAreBoundedAndARankStillGetsIn) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Connect());
  AwaitRefused(200 - 65);
  FramedChannel rank(Connect());
  ASSERT_TRUE(rank.Send(Attach(77)).ok());
  AwaitAllAttached();
  EXPECT_EQ(ranks_->refused(), 136u) << "the rank took the place of one of the 65";
}

TEST_F(RankGroupTest, Rank0sNcclIdIsTheNodesWhoeverOffersFirst) {
  Create(2);
  FramedChannel ranks[] = {FramedChannel(Connect()), FramedChannel(Connect())};
  for (uint32_t r : {0, 1}) ASSERT_TRUE(ranks[r].Send(Attach(77, r)).ok());
  AwaitAllAttached();
  for (uint32_t r : {1, 0}) {
    proto::RankMessage message;
    message.mutable_offer()->set_total_steps(9);
    if (r == 0) message.mutable_offer()->set_nccl_id("id");
    ASSERT_TRUE(ranks[r].Send(message).ok());
    ASSERT_EQ(ranks_->Receive(), absl::OkStatus());  // it has arrived: the socket is local
  }
  const absl::Time deadline = absl::Now() + kDeadline;
  while (!ranks_->all_offered() && absl::Now() < deadline) {
    ASSERT_EQ(ranks_->Receive(), absl::OkStatus());
  }
  EXPECT_EQ(ranks_->offer().nccl_id(), "id");
  EXPECT_EQ(ranks_->offer().total_steps(), 9u);
}

TEST_F(RankGroupTest, RanksOfferTheSameWeightsOrAllTakeRank0s) {
  const auto offer = [&](bool takes_0, bool takes_1) {
    proto::Offer offers[2];
    for (uint32_t r : {0, 1}) {
      const bool takes = r == 0 ? takes_0 : takes_1;
      offers[r].set_takes_first_weights(takes);
      if (!takes) offers[r].set_weights_checksum(5 + r);
    }
    return Difference(offers[0], offers[1]);
  };
  EXPECT_EQ(offer(true, true), "");
  EXPECT_EQ(offer(false, false), "rank 1 offers other first weights than rank 0");
  EXPECT_EQ(offer(false, true), "rank 1 begins with rank 0's weights, rank 0 with its own");
  EXPECT_EQ(offer(true, false), "rank 0 begins with rank 0's weights, rank 1 with its own");
}

TEST_F(RankGroupTest, RanksNameTheSameOptimizerAndAllSayRatesOrNone) {
  proto::Offer plain, decays, adam, rated;
  plain.mutable_optimizer()->mutable_sgd();
  decays.mutable_optimizer()->mutable_sgd()->set_weight_decay(0.5f);
  rated = plain;
  rated.set_says_rates(true);
  EXPECT_EQ(Difference(plain, plain), "");
  EXPECT_EQ(ranks_->offer().optimizer().has_sgd(), true);
  EXPECT_EQ(Difference(plain, decays),
            "rank 1 names the optimizer sgd { weight_decay: 0.5 }, rank 0 names sgd { }");
  EXPECT_EQ(Difference({}, plain), "rank 1 names the optimizer sgd { }, rank 0 names none");
  EXPECT_EQ(Difference(plain, rated),
            "rank 1 says the learning rate of each step, rank 0 does not");
  EXPECT_EQ(Difference(rated, plain),
            "rank 0 says the learning rate of each step, rank 1 does not");
  proto::Offer resumes = plain;
  resumes.set_can_resume(true);
  EXPECT_EQ(Difference(plain, resumes), "rank 1 can go on from a checkpoint, rank 0 cannot");
  proto::Offer keeps = plain;
  keeps.set_keeps_state(true);
  EXPECT_EQ(Difference(keeps, plain),
            "rank 0 keeps state of its own in checkpoints, rank 1 does not");
}

TEST_F(RankGroupTest, ManyRanksMayConnectLongBeforeTheyAttach) {
  constexpr uint32_t kRanks = 200;
  Create(kRanks);
  std::vector<std::unique_ptr<FramedChannel>> channels;
  for (uint32_t r = 0; r < kRanks; ++r) {
    channels.push_back(std::make_unique<FramedChannel>(Connect()));
    ASSERT_EQ(ranks_->Receive(), absl::OkStatus());
  }
  for (uint32_t r = 0; r < kRanks; ++r) ASSERT_TRUE(channels[r]->Send(Attach(77, r)).ok());
  AwaitAllAttached();
  EXPECT_EQ(ranks_->refused(), 0u);
}

}  // namespace
}  // namespace strata::worker
