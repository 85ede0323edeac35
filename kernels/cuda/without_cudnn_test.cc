// The plugin where its build found no header of cuDNN's.
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/layers.h"

namespace strata::cuda {
namespace {

TEST(WithoutCudnnTest, WhoWantsLayersIsToldWhatTheBuildLacked) {
  const auto device = FindDevices().value()->Use(0).value();
  EXPECT_EQ(device->OpenLayers({}).status(),
            absl::UnimplementedError("the plugin was built without cuDNN: cudnn.h was not found "
                                     "beside CUDA's headers"));
}

}  // namespace
}  // namespace strata::cuda
