// What a program says of its steps, and ranks that do not do the same.
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/client/nccl/device_steps.h"
#include "worker/client/nccl/device_steps_fixture.h"

namespace strata::nccl {
namespace {

TEST_F(DeviceStepsTest, TheProgramsRatesAreThoseOfItsSteps) {
  const proto::Job job = SomeJob("optimizer { adamw { weight_decay: 0.1 } }");
  const std::vector<float> rates = {0.25f, 0.1f};
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r, nullptr, /*says_rates=*/true);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(steps->BeginStep(4 + r, rates[step]), absl::OkStatus());
      PutGradients(*steps, r, step);
      ASSERT_EQ(steps->Publish({ChunkId(0), ChunkId(1), ChunkId(2)}, step, nullptr),
                absl::OkStatus());
      ASSERT_EQ(steps->AwaitAll(), absl::OkStatus());
    }
    EXPECT_EQ(Weights(*steps), Expected(job, {4, 5}, 2, rates));
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

TEST_F(DeviceStepsTest, RanksThatSayOtherRatesAreRefusedBeforeAnythingIsApplied) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification told[2];
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r, nullptr, /*says_rates=*/true);
    const std::vector<float> before = Weights(*steps);
    ASSERT_EQ(steps->BeginStep(1, r == 0 ? 0.25f : 0.1f), absl::OkStatus());
    const std::string rate = r == 0 ? "0.25" : "0.100000001";
    EXPECT_EQ(steps->Publish({ChunkId(0)}, 0, nullptr),
              absl::InvalidArgumentError("says learning rate " + rate +
                                         " at step 0, another rank another one"));
    EXPECT_EQ(Weights(*steps), before);
    told[r].Notify();
    // Its end would abort what the other still waits for.
    EXPECT_TRUE(told[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
  });
}

TEST_F(DeviceStepsTest, ARankThatEndsBeforeTheOthersIsRefused) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  absl::Notification told[2];
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    ASSERT_EQ(Step(*steps, r, 0, 1), absl::OkStatus());
    if (r == 0) {
      EXPECT_EQ(steps->Sum(7).status(),
                absl::InvalidArgumentError("ends after 1 step, but another rank goes on"));
    } else {
      EXPECT_EQ(
          Step(*steps, r, 1, 1),
          absl::InvalidArgumentError("goes on with step 1, but another rank has made its last"));
    }
    told[r].Notify();
    EXPECT_TRUE(told[1 - r].WaitForNotificationWithTimeout(absl::Minutes(2)));
  });
}

TEST_F(DeviceStepsTest, RanksMayPublishChunksInOrdersOfTheirOwn) {
  const proto::Job job = SomeJob("optimizer { momentum_sgd {} }");
  InRanks(2, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 2, r);
    for (uint64_t step = 0; step < 2; ++step) {
      ASSERT_EQ(steps->BeginStep(4 + r), absl::OkStatus());
      PutGradients(*steps, r, step);
      for (const uint32_t i : {0, 1, 2}) {
        const uint32_t chunk = r == 0 ? i : (i + 1 + step) % 3;
        ASSERT_EQ(steps->Publish({ChunkId(chunk)}, step, nullptr), absl::OkStatus());
      }
      ASSERT_EQ(steps->AwaitAll(), absl::OkStatus());
    }
    EXPECT_EQ(Weights(*steps), Expected(job, {4, 5}));
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

TEST_F(DeviceStepsTest, Rank0sFirstWeightsAreTakenBitForBit) {
  const proto::Job job = SomeJob("optimizer { sgd {} }");
  const auto of_rank = [](uint32_t rank) {
    std::vector<float> weights(kElements, static_cast<float>(rank) + 0.5f);
    weights[0] = rank == 0 ? -0.0f : 1;
    weights[1] = std::bit_cast<float>(0x7fc0'0001u + rank);  // each rank's own NaN
    weights[2] = rank == 0 ? INFINITY : 1;
    return weights;
  };
  InRanks(3, [&](uint32_t r, const std::string& id) {
    const auto steps = Begun(job, id, 3, r);
    ASSERT_EQ(steps->TakeWeightsFrom(of_rank(r).data()), absl::OkStatus());
    ASSERT_EQ(steps->TakeWeightsOfRank0(), absl::OkStatus());
    const std::vector<float> found = Weights(*steps), expected = of_rank(0);
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), kElements * sizeof(float)), 0);
    EXPECT_EQ(steps->Finish(), absl::OkStatus());
  });
}

}  // namespace
}  // namespace strata::nccl
