// Devices, streams and events as their users see them.
#include "kernels/device/device.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/device_kernels.h"
#include "kernels/device/test_devices.h"

namespace strata::device {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Long enough to catch a stream that does not wait though it should; one that waits correctly never
// ends it early.
constexpr absl::Duration kWithoutWaiting = absl::Milliseconds(100);

class DeviceTest : public testing::Test {
 protected:
  DeviceTest() { ConfigureTestDevices("devices=2"); }
  ~DeviceTest() override {
    EXPECT_EQ(TestDeviceBytes(), 0u);
    ConfigureTestDevices("");
  }

  static std::shared_ptr<Device> Use(uint32_t index = 0) {
    return FindTestDevices()->Use(index).value();
  }
  // Another one, where there is one.
  static std::shared_ptr<Device> UseLast() {
    return Use(static_cast<uint32_t>(TestDeviceCount() - 1));
  }
  // Filled, once it returns.
  static Memory Filled(Device& device, size_t bytes, uint8_t value) {
    Memory memory = device.Allocate(bytes, "a test").value();
    const auto stream = device.NewStream(false).value();
    EXPECT_EQ(stream->Fill(memory.get(), value, bytes), absl::OkStatus());
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    return memory;
  }
  // Pinned, because a copy to unpinned memory may wait for the stream.
  static Memory OnHost(Device& device, size_t bytes, uint8_t value) {
    Memory memory = device.AllocatePinned(bytes, "a test").value();
    std::memset(memory.get(), value, bytes);
    return memory;
  }
  static void ExpectAll(const Memory& on_host, size_t bytes, uint8_t value) {
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(on_host.get()[i], static_cast<std::byte>(value)) << i;
    }
  }
};

// Work that waits in a stream until it is opened, or for a minute. Meanwhile no device memory is
// allocated, which may wait for the devices' work.
class Gate {
 public:
  void Close(Stream& stream) {
    EXPECT_EQ(stream.Call([this] { opens_.WaitForNotificationWithTimeout(absl::Minutes(1)); }),
              absl::OkStatus());
  }
  void Open() { opens_.Notify(); }

 private:
  absl::Notification opens_;
};

TEST_F(DeviceTest, EachIsKnownByItsNumberItsArchitectureAndWhereItIsPluggedIn) {
  const auto devices = FindTestDevices();
  const std::vector<DeviceInfo>& infos = devices->infos();
  EXPECT_THAT(devices->software(), StartsWith("CUDA "));
  ASSERT_FALSE(infos.empty());
  for (uint32_t index = 0; index < infos.size(); ++index) {
    EXPECT_EQ(infos[index].index, index);
    EXPECT_NE(infos[index].name, "");
    EXPECT_THAT(infos[index].architecture, StartsWith("sm_"));
    for (uint32_t other = 0; other < index; ++other) {
      EXPECT_NE(infos[index].bus, infos[other].bus);
    }
    const auto device = devices->Use(index).value();
    EXPECT_EQ(device->info().bus, infos[index].bus);
    EXPECT_EQ(device->Health(), absl::OkStatus());
    EXPECT_GT(device->FreeBytes().value(), 0u);
    EXPECT_LE(device->FreeBytes().value(), infos[index].memory_bytes);
  }
  EXPECT_EQ(devices->Use(static_cast<uint32_t>(infos.size())).status(),
            absl::NotFoundError(absl::StrCat("device ", infos.size(), ": there are ", infos.size(),
                                             ", from 0 on")));
}

TEST_F(DeviceTest, CopiesGoBetweenPinnedOrOtherHostMemoryAndDevices) {
  const size_t bytes = 10'000;
  const auto device = Use(), peer = UseLast();
  const auto stream = device->NewStream(false).value();
  const Memory pinned = OnHost(*device, bytes, 0);
  const Memory here = device->Allocate(bytes, "a test").value();
  const Memory there = peer->Allocate(bytes, "a test").value();
  std::vector<uint8_t> host(bytes, 0), other(bytes, 0);
  const Memory registered = device->Pin(host.data(), bytes).value();
  EXPECT_EQ(registered.get(), reinterpret_cast<std::byte*>(host.data()));
  for (size_t i = 0; i < bytes; ++i) pinned.get()[i] = static_cast<std::byte>(i % 251);
  EXPECT_EQ(stream->Copy(here.get(), pinned.get(), bytes), absl::OkStatus());
  EXPECT_EQ(stream->Fill(here.get() + 100, 0xff, 50), absl::OkStatus());
  EXPECT_EQ(stream->Copy(there.get(), here.get(), bytes), absl::OkStatus());
  EXPECT_EQ(stream->Copy(registered.get(), there.get(), bytes), absl::OkStatus());
  EXPECT_EQ(stream->Copy(other.data(), there.get(), bytes), absl::OkStatus());
  EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  for (size_t i = 0; i < bytes; ++i) {
    ASSERT_EQ(host[i], i >= 100 && i < 150 ? 0xff : i % 251) << i;
  }
  EXPECT_EQ(other, host);
}

TEST_F(DeviceTest, EventsTellWhenAllBeforeThemIsDone) {
  const auto device = Use();
  const auto stream = device->NewStream(false).value(), other = device->NewStream(true).value();
  const auto event = device->NewEvent().value();
  EXPECT_TRUE(event->Done().value()) << "never recorded";
  EXPECT_EQ(event->Await(), absl::OkStatus());

  const Memory memory = Filled(*device, 64, 9), host = OnHost(*device, 64, 7);
  Gate gate;
  gate.Close(*stream);
  ASSERT_EQ(stream->Fill(memory.get(), 3, 64), absl::OkStatus());
  ASSERT_EQ(stream->Record(event.get()), absl::OkStatus());
  EXPECT_FALSE(event->Done().value());
  ASSERT_EQ(other->Wait(*event), absl::OkStatus());
  ASSERT_EQ(other->Copy(host.get(), memory.get(), 64), absl::OkStatus());
  absl::Notification called;
  ASSERT_EQ(other->Call([&] { called.Notify(); }), absl::OkStatus());
  EXPECT_FALSE(called.WaitForNotificationWithTimeout(kWithoutWaiting));
  ExpectAll(host, 64, 7);
  gate.Open();
  EXPECT_EQ(event->Await(), absl::OkStatus());
  EXPECT_TRUE(event->Done().value());
  ASSERT_TRUE(called.WaitForNotificationWithTimeout(absl::Minutes(1)));
  ExpectAll(host, 64, 3);
  EXPECT_EQ(other->Synchronize(), absl::OkStatus());
}

TEST_F(DeviceTest, TimedEventsTellHowLongItWasBetweenThemAndOthersDoNot) {
  const auto device = Use();
  const auto stream = device->NewStream(false).value();
  const auto begin = device->NewTimedEvent().value(), end = device->NewTimedEvent().value();
  const auto untimed = device->NewEvent().value();
  const absl::Time before = absl::Now();
  ASSERT_EQ(stream->Record(begin.get()), absl::OkStatus());
  ASSERT_EQ(stream->Call([] { absl::SleepFor(absl::Milliseconds(5)); }), absl::OkStatus());
  ASSERT_EQ(stream->Record(end.get()), absl::OkStatus());
  ASSERT_EQ(stream->Record(untimed.get()), absl::OkStatus());
  ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  const double all = absl::ToDoubleSeconds(absl::Now() - before);
  const double seconds = end->SecondsSince(*begin).value();
  EXPECT_GE(seconds, 0.005 - 1e-5);  // less what the clocks' rates differ by
  EXPECT_LE(seconds, all + 1e-4);
  EXPECT_NEAR(begin->SecondsSince(*end).value(), -seconds, 5e-6);
  const auto never = device->NewTimedEvent().value();
  for (const absl::Status& refused :
       {untimed->SecondsSince(*begin).status(), end->SecondsSince(*untimed).status(),
        end->SecondsSince(*never).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("device 0: cudaEventElapsedTime: invalid resource handle"));
  }
  EXPECT_EQ(device->Health(), absl::OkStatus());
}

TEST_F(DeviceTest, AnAdoptedStreamIsTheOneOfItsOwnerWhoKeepsIt) {
  const auto device = Use();
  const auto owner = device->NewStream(false).value();
  const Memory memory = Filled(*device, 64, 9), host = OnHost(*device, 64, 7);
  const auto event = device->NewEvent().value();
  Gate gate;
  {
    const auto adopted = device->AdoptStream(owner->native()).value();
    EXPECT_EQ(adopted->native(), owner->native());
    gate.Close(*owner);
    ASSERT_EQ(adopted->Fill(memory.get(), 3, 64), absl::OkStatus());
    ASSERT_EQ(adopted->Record(event.get()), absl::OkStatus());
    EXPECT_FALSE(event->Done().value()) << "what the owner queued comes first";
  }
  ASSERT_EQ(owner->Copy(host.get(), memory.get(), 64), absl::OkStatus());
  gate.Open();
  EXPECT_EQ(owner->Synchronize(), absl::OkStatus());
  EXPECT_TRUE(event->Done().value());
  ExpectAll(host, 64, 3);
}

TEST_F(DeviceTest, AStreamOfAnotherDeviceIsNotAdopted) {
  if (TestDeviceCount() < 2) GTEST_SKIP() << "needs two devices";
  const auto device = Use(0), peer = Use(1);
  const auto stream = peer->NewStream(false).value();
  const absl::Status refused = device->AdoptStream(stream->native()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), StartsWith("device 0: the stream "));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(" is device 1's"));
  EXPECT_EQ(device->Health(), absl::OkStatus());
}

TEST_F(DeviceTest, StreamsOfOneDeviceWaitForEventsOfAnother) {
  if (TestDeviceCount() < 2) GTEST_SKIP() << "needs two devices";
  const auto device = Use(0), peer = Use(1);
  const auto stream = device->NewStream(false).value(), after = peer->NewStream(false).value();
  auto event = device->NewEvent().value();
  const Memory memory = Filled(*device, 32, 0), host = OnHost(*peer, 32, 5);
  Gate gate;
  gate.Close(*stream);
  ASSERT_EQ(stream->Fill(memory.get(), 8, 32), absl::OkStatus());
  ASSERT_EQ(stream->Record(event.get()), absl::OkStatus());
  ASSERT_EQ(after->Wait(*event), absl::OkStatus());
  ASSERT_EQ(after->Copy(host.get(), memory.get(), 32), absl::OkStatus());
  absl::Notification called;
  ASSERT_EQ(after->Call([&] { called.Notify(); }), absl::OkStatus());
  event.reset();  // does not wait
  EXPECT_FALSE(called.WaitForNotificationWithTimeout(kWithoutWaiting));
  ExpectAll(host, 32, 5);
  gate.Open();
  EXPECT_EQ(after->Synchronize(), absl::OkStatus());
  ExpectAll(host, 32, 8);
}

TEST_F(DeviceTest, KernelsUseMemoryOfAnotherDeviceThatTheyReach) {
  if (TestDeviceCount() < 2) GTEST_SKIP() << "needs two devices";
  constexpr size_t kCount = 64;
  const auto first = Use(0), second = Use(1);
  EXPECT_TRUE(first->Reaches(*first));
  if (!first->Reaches(*second)) GTEST_SKIP() << "device 0 does not reach device 1";
  const auto stream = first->NewStream(false).value();
  const Memory here = Filled(*first, kCount * sizeof(float), 0);
  const Memory there = Filled(*second, kCount * sizeof(float), 0);
  const Memory verdict = Filled(*first, sizeof(Verdict), kGoodByte);
  const std::vector<float> values(kCount, 1.5f);
  std::vector<float> sums(kCount);
  ASSERT_EQ(stream->Copy(there.get(), values.data(), kCount * sizeof(float)), absl::OkStatus());
  auto* const sum = reinterpret_cast<float*>(here.get());
  const float* const inputs[] = {sum, reinterpret_cast<const float*>(there.get())};
  ASSERT_EQ(first->kernels().sum(*stream, absl::MakeConstSpan(inputs), sum, kCount,
                                 reinterpret_cast<Verdict*>(verdict.get())),
            absl::OkStatus());
  ASSERT_EQ(stream->Copy(sums.data(), sum, kCount * sizeof(float)), absl::OkStatus());
  ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  EXPECT_EQ(sums, values);
}

TEST_F(DeviceTest, WithoutEnoughMemoryTheErrorSaysWhatForAndWhatIsFree) {
  const auto device = Use();
  const absl::Status status =
      device->Allocate(2 * device->info().memory_bytes, "the arena of rank 2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              testing::ContainsRegex("^device 0: out of memory: [0-9.]+ MiB asked for the arena of "
                                     "rank 2, [0-9.]+ MiB of [0-9.]+ MiB free on the device$"));
  EXPECT_EQ(device->Health(), absl::OkStatus()) << "nothing else is wrong with it";
  EXPECT_TRUE(device->Allocate(size_t{2} << 20, "what is left").ok());
}

}  // namespace
}  // namespace strata::device
