// All-reduces whose ranks say the learning rate of each step.
#include <string>

#include "gtest/gtest.h"
#include "worker/exchange/testing/all_reduce_world.h"

namespace strata::worker {
namespace {

using proto::AllReduce;
using World = AllReduceWorld;

World::Options Shape(AllReduce::Algorithm algorithm, const std::string& base_lr, float rate) {
  World::Options options;
  options.nodes = 4;
  options.algorithm = algorithm;
  options.job = "optimizer { momentum_sgd {} } schedule { base_lr: " + base_lr + " }";
  options.rate = rate;
  return options;
}

TEST(AllReduceRates, ARateThatIsSaidTakesThePlaceOfTheSchedules) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    World said(Shape(algorithm, "100", 0.25f)), scheduled(Shape(algorithm, "0.25", 0));
    ASSERT_TRUE(said.Run());
    ASSERT_TRUE(scheduled.Run());
    EXPECT_EQ(said.status(0), absl::OkStatus());
    EXPECT_EQ(said.weights(0), scheduled.weights(0));
    EXPECT_NE(said.weights(0), said.first_weights(0));
  }
}

TEST(AllReduceRates, NodesThatSayOthersEndTheJobAndAreNamed) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    World::Options options = Shape(algorithm, "1", 0.25f);
    options.other_rate = 2;
    World world(options);
    ASSERT_TRUE(world.Run());
    for (uint32_t n = 0; n < options.nodes; ++n) {
      const std::string reason(world.status(n).message());
      bool names_both = false;
      for (const char* who : {"node 0 says learning rate 0.25", "node 1 says learning rate 0.25",
                              "node 2 says learning rate 0.5", "node 3 says learning rate 0.25"}) {
        names_both = names_both || reason.find(who) != std::string::npos;
      }
      EXPECT_TRUE(names_both) << reason;
      EXPECT_NE(reason.find(" at clock 0 of chunk 0, this one 0."), std::string::npos) << reason;
    }
  }
}

}  // namespace
}  // namespace strata::worker
