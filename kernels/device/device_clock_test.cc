// On the fake device, whose events have the time of the host's steady clock.
#include "kernels/device/device_clock.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/device_kernels.h"
#include "kernels/fake_cuda/control.h"

namespace strata::device {
namespace {

class DeviceClockTest : public testing::Test {
 protected:
  DeviceClockTest() { fake_cuda::Configure({}); }
  ~DeviceClockTest() override { fake_cuda::Configure({}); }

  // Reached once it is returned.
  std::unique_ptr<Event> Reached() {
    auto event = device_->NewTimedEvent().value();
    EXPECT_TRUE(stream_->Record(event.get()).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return event;
  }

  const std::shared_ptr<Device> device_ = cuda::FindDevices().value()->Use(0).value();
  const std::unique_ptr<Stream> stream_ = device_->NewStream(false).value();
};

TEST_F(DeviceClockTest, AnEventIsWhereTheHostsClockSawIt) {
  const absl::Duration ahead = absl::Hours(1000);
  const auto now = [=] { return absl::Now() + ahead; };
  const auto clock = DeviceClock::Create(device_, now).value();
  EXPECT_GE(clock->error(), absl::ZeroDuration());
  const absl::Duration error = clock->error() + absl::Microseconds(100);
  absl::Time last = absl::InfinitePast();
  for (int i = 0; i < 20; ++i) {
    const absl::Time before = now();
    const auto event = Reached();
    const absl::Time after = now();
    const absl::Time at = clock->TimeOf(*event).value();
    EXPECT_GE(at, before - error);
    EXPECT_LE(at, after + error);
    EXPECT_GE(at, last);
    last = at;
  }
}

// Clocks that drift apart: the host's goes where the test wants it.
TEST_F(DeviceClockTest, WhatHasDriftedIsMadeGoodByTheNextAnchor) {
  const absl::Time begin = absl::FromUnixSeconds(1000);
  absl::Time host = begin;
  const auto real = [start = absl::Now()] { return absl::Now() - start + absl::Microseconds(100); };
  const auto clock = DeviceClock::Create(device_, [&] { return host; }).value();
  EXPECT_EQ(clock->error(), absl::ZeroDuration());
  auto event = Reached();
  EXPECT_GE(clock->TimeOf(*event).value(), begin);
  EXPECT_LE(clock->TimeOf(*event).value(), begin + real());

  host += DeviceClock::kAnchorEvery - absl::Milliseconds(1);
  ASSERT_TRUE(clock->KeepUp().ok());
  EXPECT_LE(clock->TimeOf(*event).value(), begin + real()) << "too early for another one";

  host = begin + absl::Hours(1);
  ASSERT_TRUE(clock->KeepUp().ok());
  EXPECT_LE(clock->TimeOf(*event).value(), host) << "it was before the anchor";
  EXPECT_GE(clock->TimeOf(*event).value(), host - real());
  event = Reached();
  EXPECT_GE(clock->TimeOf(*event).value(), host);
  EXPECT_LE(clock->TimeOf(*event).value(), host + real());
}

TEST_F(DeviceClockTest, ADeviceThatFailsSaysSo) {
  fake_cuda::Configure({.fails_at = 1});
  const auto clock = DeviceClock::Create(device_).value();
  const Memory memory = device_->Allocate(256, "a test").value();
  auto* const x = reinterpret_cast<float*>(memory.get());
  // Told here, or by the next call.
  device_->kernels().check_finite(*stream_, x, 1, reinterpret_cast<Verdict*>(x + 32)).IgnoreError();
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kInternal);
  const auto event = device_->NewTimedEvent();
  EXPECT_EQ(event.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(DeviceClock::Create(device_).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace strata::device
