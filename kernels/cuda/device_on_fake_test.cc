#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/testing.h"

// Properties of devices, streams and events that only the fake device can show.

namespace strata::cuda {

namespace {

using device::Device;
using device::Memory;
using device::SharedMemory;
using device::Stream;
using fake_cuda::Configure;
using fake_cuda::OtherProcess;
using fake_cuda::Settings;

class DeviceOnFake : public testing::Test {
 protected:
  DeviceOnFake() { Configure({}); }
  ~DeviceOnFake() override { Configure({}); }

  static std::shared_ptr<Device> Use(uint32_t index = 0) {
    return FindDevices().value()->Use(index).value();
  }
  // Allocated and filled.
  static Memory Filled(Device& device, Stream& stream, size_t bytes, uint8_t value) {
    Memory memory = device.Allocate(bytes, "a test").value();
    EXPECT_EQ(stream.Fill(memory.get(), value, bytes), absl::OkStatus());
    return memory;
  }
  static std::vector<uint8_t> Read(Stream& stream, const Memory& memory, size_t bytes) {
    std::vector<uint8_t> host(bytes);
    EXPECT_EQ(stream.Copy(host.data(), memory.get(), bytes), absl::OkStatus());
    EXPECT_EQ(stream.Synchronize(), absl::OkStatus());
    return host;
  }
};

TEST_F(DeviceOnFake, DevicesAreFoundWithWhatIsKnownOfThem) {
  Settings settings;
  settings.devices = 2;
  settings.memory_bytes = size_t{3} << 30;
  Configure(settings);
  const auto devices = FindDevices().value();
  EXPECT_EQ(devices->software(), "CUDA 13.0, driver for 13.0");
  ASSERT_EQ(devices->infos().size(), 2u);
  for (uint32_t index : {0, 1}) {
    const device::DeviceInfo& info = devices->infos()[index];
    EXPECT_EQ(info.index, index);
    EXPECT_EQ(info.name, "fake device");
    EXPECT_EQ(info.architecture, "sm_90");
    EXPECT_EQ(info.memory_bytes, size_t{3} << 30);
    const auto device = devices->Use(index).value();
    EXPECT_EQ(device->info().bus, info.bus);
    EXPECT_EQ(device->FreeBytes().value(), size_t{3} << 30);
    EXPECT_EQ(device->Health(), absl::OkStatus());
  }
  EXPECT_NE(devices->infos()[0].bus, devices->infos()[1].bus);
  EXPECT_EQ(devices->Use(2).status(), absl::NotFoundError("device 2: there are 2, from 0 on"));
}

TEST_F(DeviceOnFake, WhereThereIsNoneTheErrorSaysWhy) {
  Settings settings;
  settings.driver = 0;
  Configure(settings);
  EXPECT_EQ(FindDevices().status(),
            absl::UnavailableError("no driver for CUDA devices is installed"));
  settings.driver = 12080;
  Configure(settings);
  EXPECT_EQ(FindDevices().status(),
            absl::UnavailableError("the driver is too old: it is for CUDA 12.8, this program "
                                   "needs 13.0"));
  settings = {};
  settings.devices = 0;
  Configure(settings);
  EXPECT_EQ(FindDevices().status(), absl::UnavailableError("no CUDA-capable device is detected"));
}

TEST_F(DeviceOnFake, KernelsUseMemoryOfAnotherDeviceOnlyWhereTheyReachItAndCopiesAlwaysDo) {
  constexpr size_t kBytes = 64 * sizeof(float);
  for (const bool peers : {true, false}) {
    Settings settings;
    settings.devices = 2;
    settings.peers = peers;
    Configure(settings);
    const auto devices = FindDevices().value();
    const auto first = devices->Use(0).value(), second = devices->Use(1).value();
    EXPECT_TRUE(first->Reaches(*first));
    EXPECT_EQ(first->Reaches(*second), peers);
    EXPECT_EQ(second->Reaches(*first), peers);
    const auto stream = first->NewStream(false).value(), other = second->NewStream(false).value();
    const Memory here = Filled(*first, *stream, kBytes, 0);
    const Memory there = Filled(*second, *other, kBytes, 0);
    const Memory verdict = Filled(*first, *stream, sizeof(device::Verdict), device::kGoodByte);
    ASSERT_EQ(other->Synchronize(), absl::OkStatus());
    EXPECT_EQ(stream->Copy(here.get(), there.get(), kBytes), absl::OkStatus());
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    const float* const inputs[] = {reinterpret_cast<const float*>(here.get()),
                                   reinterpret_cast<const float*>(there.get())};
    const absl::Status queued = first->kernels().sum(
        *stream, absl::MakeConstSpan(inputs), reinterpret_cast<float*>(here.get()), 64,
        reinterpret_cast<device::Verdict*>(verdict.get()));
    EXPECT_TRUE(queued.ok() || !peers) << queued;  // it may have failed already
    EXPECT_EQ(stream->Synchronize().ok(), peers);
  }
}

// A device that is used takes some hundred MiB of its memory, in each process.
TEST_F(DeviceOnFake, AThreadThatHasChosenNoDeviceBeginsToUseNoOther) {
  Configure({.devices = 2});
  const std::shared_ptr<Device> device = Use(1);
  const auto stream = device->NewStream(false).value(), other = device->NewStream(false).value();
  const auto begin = device->NewTimedEvent().value(), end = device->NewTimedEvent().value();
  const Memory memory = Filled(*device, *stream, 64, 1);
  std::thread([&] {
    EXPECT_TRUE(begin->Done().ok());
    EXPECT_EQ(stream->Record(begin.get()), absl::OkStatus());
  }).join();
  for (const std::function<absl::Status()>& call : std::vector<std::function<absl::Status()>>{
           [&] { return stream->Copy(memory.get() + 32, memory.get(), 32); },
           [&] { return stream->Fill(memory.get(), 2, 32); },
           [&] { return stream->Record(end.get()); }, [&] { return other->Wait(*end); },
           [&] { return other->Call([] {}); }, [&] { return other->Synchronize(); },
           [&] { return end->Await(); }, [&] { return end->SecondsSince(*begin).status(); },
           [&] { return device->Share(memory, 64).status(); }}) {
    std::thread([&] { EXPECT_EQ(call(), absl::OkStatus()); }).join();
    EXPECT_EQ(fake_cuda::UsedDevices(), 2u);
  }
}

TEST_F(DeviceOnFake, MemoryIsGivenBackWhenItsLastOwnerLetsGo) {
  const auto device = Use();
  Memory memory = device->Allocate(5000, "a test").value();
  Memory second_owner = memory;
  memory.reset();
  EXPECT_EQ(fake_cuda::AllocatedBytes(), 5000u);
  second_owner.reset();
  EXPECT_EQ(fake_cuda::AllocatedBytes(), 0u);
  EXPECT_EQ(device->FreeBytes().value(), device->info().memory_bytes);
}

TEST_F(DeviceOnFake, WhatIsFreeIsThatOfTheDeviceLessWhatIsAllocated) {
  Settings settings;
  settings.memory_bytes = size_t{8} << 20;
  Configure(settings);
  const auto device = Use();
  const Memory most = device->Allocate(size_t{6} << 20, "a test").value();
  EXPECT_EQ(device->Allocate(size_t{3} << 20, "the arena of rank 2").status(),
            absl::ResourceExhaustedError("device 0: out of memory: 3.0 MiB asked for the arena of "
                                         "rank 2, 2.0 MiB of 8.0 MiB free on the device"));
  EXPECT_TRUE(device->Allocate(size_t{2} << 20, "what is left").ok());
}

TEST_F(DeviceOnFake, AfterAFailureAllCallsOfTheDeviceSayWhatItWas) {
  Settings settings;
  settings.fails_at = 2;
  settings.error = 719;
  Configure(settings);
  const auto device = Use();
  const auto stream = device->NewStream(false).value();
  const auto event = device->NewEvent().value();
  const std::string cause = "unspecified launch failure (cudaErrorLaunchFailure)";
  const auto failed = [&](const std::string& call) {
    return absl::InternalError("device 0: " + call + ": " + cause);
  };
  {
    const Memory memory = Filled(*device, *stream, 400, 0);
    auto* const x = reinterpret_cast<float*>(memory.get());
    auto* const verdict = reinterpret_cast<device::Verdict*>(x) + 50;
    const auto check = [&] { return device->kernels().check_finite(*stream, x, 50, verdict); };
    ASSERT_EQ(check(), absl::OkStatus());
    ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
    std::atomic<bool> called = false;
    absl::Notification opens;
    ASSERT_EQ(stream->Call([&] { opens.WaitForNotificationWithTimeout(absl::Minutes(1)); }),
              absl::OkStatus());
    ASSERT_EQ(check(), absl::OkStatus()) << "it comes up later";
    ASSERT_EQ(stream->Record(event.get()), absl::OkStatus());
    ASSERT_EQ(stream->Call([&] { called = true; }), absl::OkStatus());
    opens.Notify();
    EXPECT_EQ(stream->Synchronize(), failed("cudaStreamSynchronize"));
    EXPECT_FALSE(called);
    EXPECT_EQ(event->Await(), failed("cudaEventSynchronize"));
    EXPECT_EQ(event->Done().status(), failed("cudaEventQuery"));
    EXPECT_EQ(stream->Fill(x, 0, 4), failed("cudaMemsetAsync"));
    EXPECT_EQ(check(), failed("cudaSetDevice"));
    EXPECT_EQ(device->Health(), failed("cudaSetDevice"));
    EXPECT_EQ(device->Allocate(1, "a test").status(), failed("cudaSetDevice"));
    EXPECT_EQ(device->NewStream(true).status(), failed("cudaSetDevice"));
  }
  EXPECT_EQ(fake_cuda::AllocatedBytes(), 0u);
}

TEST_F(DeviceOnFake, AnotherProcessUsesMemoryThatIsShared) {
  const auto device = Use();
  const auto stream = device->NewStream(false).value();
  const Memory memory = Filled(*device, *stream, 4096, 1);
  ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  const SharedMemory shared = device->Share(memory, 4096).value();
  EXPECT_EQ(shared.bytes, 4096u);
  OtherProcess other([&](OtherProcess::Line& line) {
    const auto its_device = Use();
    const auto its_stream = its_device->NewStream(false).value();
    const auto opened = its_device->Open(shared);
    const uint8_t first = opened.ok() ? Read(*its_stream, *opened, shared.bytes)[0] : 0;
    if (opened.ok()) its_stream->Fill(opened->get() + 4000, 2, 96).IgnoreError();
    its_stream->Synchronize().IgnoreError();
    line.Send(&first, 1);
  });
  uint8_t first = 0;
  ASSERT_TRUE(other.line().Receive(&first, 1));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(other.End(), 0);
  std::vector<uint8_t> expected(4096, 1);
  std::fill(expected.begin() + 4000, expected.end(), 2);
  EXPECT_EQ(Read(*stream, memory, 4096), expected);
}

TEST_F(DeviceOnFake, WhatAProcessSharedThatIsGoneCannotBeOpened) {
  OtherProcess other([](OtherProcess::Line& line) {
    const auto device = Use();
    const Memory memory = device->Allocate(100, "a test").value();
    const SharedMemory shared = device->Share(memory, 100).value();
    line.Send(&shared, sizeof shared);
  });
  SharedMemory shared;
  ASSERT_TRUE(other.line().Receive(&shared, sizeof shared));
  EXPECT_EQ(other.End(), 0);
  const auto device = Use();
  EXPECT_EQ(device->Open(shared).status(),
            absl::InternalError("device 0: cudaIpcOpenMemHandle: mapping of buffer object failed "
                                "(cudaErrorMapBufferObjectFailed)"));
  EXPECT_EQ(device->Health(), absl::OkStatus());
  EXPECT_EQ(fake_cuda::OpenedBytes(), 0u);
}

// The memory that streams ask for by themselves, as the fake device counts it.

class WorkSpaceTest : public testing::Test {
 protected:
  WorkSpaceTest() {
    fake_cuda::Configure({});
    device_ = FindDevices().value()->Use(0).value();
  }

  const device::DeviceSparseCodec& Sparse() const { return device_->kernels().sparse; }

  std::shared_ptr<device::Device> device_;
};

TEST_F(WorkSpaceTest, AStreamTakesItsWorkSpaceWhenItIsFirstNeededAndGivesItBack) {
  const size_t before = fake_cuda::AllocatedBytes();
  auto stream = device_->NewStream(false).value();
  const device::Memory word = device_->Allocate(4, "a count").value();
  EXPECT_EQ(fake_cuda::AllocatedBytes(), before + 4);
  auto* const count = reinterpret_cast<uint32_t*>(word.get());
  ASSERT_TRUE(Sparse().select(*stream, nullptr, 1, {}, 0, count).ok());
  const size_t with_work_space = fake_cuda::AllocatedBytes();
  EXPECT_GT(with_work_space, before + 4);
  ASSERT_TRUE(Sparse().select(*stream, nullptr, 1, {}, 0, count).ok());
  EXPECT_EQ(fake_cuda::AllocatedBytes(), with_work_space);
  stream.reset();
  EXPECT_EQ(fake_cuda::AllocatedBytes(), before + 4);
}

TEST_F(WorkSpaceTest, WithoutMemoryForTheWorkSpaceNothingIsDoneAndTheErrorSaysWhy) {
  const device::Memory word = device_->Allocate(4, "a count").value();
  fake_cuda::Settings settings;
  settings.memory_bytes = fake_cuda::AllocatedBytes() + 512;
  fake_cuda::Configure(settings);
  auto stream = device_->NewStream(false).value();
  const absl::Status status =
      Sparse().select(*stream, nullptr, 1, {}, 0, reinterpret_cast<uint32_t*>(word.get()));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      std::string(status.message()),
      "device 0: out of memory: 9.5 KiB asked for a stream's work space, 0.5 KiB of 4096.0 MiB "
      "free on the device");
  EXPECT_TRUE(device_->Health().ok());
  fake_cuda::Configure({});
}

}  // namespace

}  // namespace strata::cuda
