#include "kernels/device/layer_kernels.h"

#include "gtest/gtest.h"

namespace strata::device {
namespace {

// A network has one for all of its layers, by the channels of its widest.
TEST(RowWork, SufficesForSoManyChannelsAndForFewer) {
  for (size_t channels = 1; channels < size_t{1} << 18; ++channels) {
    ASSERT_GE(RowWorkBytes(channels), RowBlocksMax(channels) * 2 * channels * sizeof(float));
    ASSERT_GE(RowWorkBytes(channels), RowWorkBytes(channels - 1)) << channels;
  }
}

}  // namespace
}  // namespace strata::device
