#include "optimizer/weight_state.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/kernels.h"

namespace strata::kernels {
namespace {

// A message's buffer would stay beside the first update's for as long as the allocator keeps it: a
// model's size in all.
TEST(WeightState, KeepsNothingOfTheMessageThatFirstWeightsCameIn) {
  BufferPool pool;
  UpdateRule rule;
  WeightState state(Cpu(), pool, rule, 64, {{.offset = 0, .count = 64}});
  const auto message = std::make_shared<std::vector<float>>(64, 1.5f);
  state.Seed(Bytes(message, reinterpret_cast<const std::byte*>(message->data()), 256), 7);
  EXPECT_EQ(message.use_count(), 1);
  EXPECT_EQ(state.seed_checksum(), 7u);
  ASSERT_EQ(state.weights().float_count(), 64u);
  EXPECT_EQ(std::count(state.weights().floats(), state.weights().floats() + 64, 1.5f), 64);
}

}  // namespace
}  // namespace strata::kernels
