// The conformance suite on a plugin's first device: what a bundle's tests/gpu/run.sh runs.
// usage: device_conformance PLUGIN [GTEST OPTIONS]; exit status 77: there is no device.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/conformance.h"
#include "kernels/device/host_kernels.h"
#include "kernels/device/load_plugin.h"

namespace strata::device {
namespace {

constexpr int kSkipped = 77;

std::shared_ptr<Devices>& Plugin() {
  static std::shared_ptr<Devices> plugin;
  return plugin;
}

const kernels::Kernels& OnDevice() {
  static const auto device = Plugin()->Use(0);
  EXPECT_TRUE(device.ok()) << device.status();
  return AsHostKernels(*device);
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: device_conformance PLUGIN [GTEST OPTIONS]\n");
    return 2;
  }
  auto plugin = LoadPlugin(argv[1]);
  if (!plugin.ok()) {
    const std::string why(plugin.status().message());
    std::fprintf(stderr, "no device: %s\n", why.c_str());
    return absl::IsUnavailable(plugin.status()) || absl::IsNotFound(plugin.status()) ? kSkipped : 1;
  }
  Plugin() = *std::move(plugin);
  const DeviceInfo& info = Plugin()->infos()[0];
  std::printf("%s: %s, %s\n", Plugin()->software().c_str(), info.name.c_str(),
              info.architecture.c_str());
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace strata::device

namespace strata::kernels {

INSTANTIATE_TEST_SUITE_P(Device, KernelsConformance, testing::Values(&device::OnDevice));

}  // namespace strata::kernels

int main(int argc, char** argv) { return strata::device::Main(argc, argv); }
