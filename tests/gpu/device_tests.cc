// The suites for devices, on those of a plugin: what a bundle's tests/gpu/run.sh runs. It leaves
// out what only fake devices can do.
// usage: device_tests PLUGIN [GTEST OPTIONS]; exit status 77: there is no device.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device_clock.h"
#include "kernels/device/host_kernels.h"
#include "kernels/device/load_plugin.h"
#include "kernels/device/test_devices.h"
#include "kernels/testing/conformance.h"

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

// As one of as many ranks as there are devices, `index` in the sum of all; what it is then.
absl::StatusOr<float> SumOfIndices(uint32_t index, const std::string& id) {
  constexpr size_t kCount = 100'000;
  const StillWanted always = [] { return absl::OkStatus(); };
  const auto ranks = static_cast<uint32_t>(Plugin()->infos().size());
  const auto device = Plugin()->Use(index);
  if (!device.ok()) return device.status();
  const auto communicator = (*device)->NewCommunicator(id, ranks, index, always);
  if (!communicator.ok()) return communicator.status();
  const auto stream = (*device)->NewStream(false);
  if (!stream.ok()) return stream.status();
  const auto memory = (*device)->Allocate(kCount * sizeof(float), "a sum over devices");
  if (!memory.ok()) return memory.status();
  std::vector<float> values(kCount, static_cast<float>(index));
  auto* const at = reinterpret_cast<float*>(memory->get());
  absl::Status status = (*stream)->Copy(at, values.data(), kCount * sizeof(float));
  if (status.ok()) status = (*communicator)->AllReduce(**stream, at, at, kCount, always);
  if (status.ok()) status = (*stream)->Copy(values.data(), at, kCount * sizeof(float));
  if (status.ok()) status = (*stream)->Synchronize();
  if (status.ok()) status = (*communicator)->Finish(always);
  if (!status.ok()) return status;
  for (const float value : values) {
    if (value != values[0]) return absl::DataLossError("not all elements have the same sum");
  }
  return values[0];
}

TEST(DeviceCommunicator, AddsUpOverAllDevices) {
  const auto first = Plugin()->Use(0);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<std::string> id = (*first)->NewCommunicatorId();
  if (absl::IsNotFound(id.status()) || absl::IsUnimplemented(id.status())) {
    GTEST_SKIP() << id.status().message();
  }
  ASSERT_TRUE(id.ok()) << id.status();
  const size_t ranks = Plugin()->infos().size();
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const absl::StatusOr<float> sum = SumOfIndices(r, *id);
      ASSERT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(*sum, static_cast<float>(ranks * (ranks - 1) / 2));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// 16 fills of 16 MiB, with an event before, between and behind them.
TEST(DeviceTime, IsThatOfTheWorkBetweenEventsAndLiesWhereTheHostSawIt) {
  constexpr size_t kBytes = 16 << 20;
  const auto device = Plugin()->Use(0);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto clock = DeviceClock::Create(*device);
  ASSERT_TRUE(clock.ok()) << clock.status();
  const auto stream = (*device)->NewStream(false).value();
  const auto memory = (*device)->Allocate(kBytes, "what is filled").value();
  std::vector<std::unique_ptr<Event>> events;
  const absl::Time before = absl::Now();
  for (int i = 0; i < 3; ++i) {
    if (i > 0) {
      for (int fill = 0; fill < 8; ++fill) {
        ASSERT_TRUE(stream->Fill(memory.get(), static_cast<uint8_t>(fill), kBytes).ok());
      }
    }
    events.push_back((*device)->NewTimedEvent().value());
    ASSERT_TRUE(stream->Record(events.back().get()).ok());
  }
  ASSERT_TRUE(stream->Synchronize().ok());
  const absl::Time after = absl::Now();
  const double first = events[1]->SecondsSince(*events[0]).value();
  const double second = events[2]->SecondsSince(*events[1]).value();
  const double all = events[2]->SecondsSince(*events[0]).value();
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_NEAR(all, first + second, 5e-6);
  EXPECT_NEAR(events[0]->SecondsSince(*events[2]).value(), -all, 5e-6);
  const absl::Duration error = (*clock)->error() + absl::Microseconds(100);
  EXPECT_GE((*clock)->TimeOf(*events[0]).value(), before - error);
  EXPECT_LE((*clock)->TimeOf(*events[2]).value(), after + error);
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: device_tests PLUGIN [GTEST OPTIONS]\n");
    return 2;
  }
  auto plugin = LoadPlugin(argv[1]);
  if (!plugin.ok()) {
    const std::string why(plugin.status().message());
    std::fprintf(stderr, "no device: %s\n", why.c_str());
    return absl::IsUnavailable(plugin.status()) || absl::IsNotFound(plugin.status()) ? kSkipped : 1;
  }
  Plugin() = *std::move(plugin);
  SetTestDevices({.find = [] { return Plugin(); }});
  if (testing::GTEST_FLAG(filter) == "*") testing::GTEST_FLAG(filter) = "-*OnFake.*";
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
