#include "worker/aggregator/device/device_arenas.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/event_fd.h"
#include "common/fork_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "kernels/kernels.h"
#include "worker/exchange/server/push_encoder.h"

namespace strata::worker {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr uint32_t kChunkElements = 512;
constexpr uint64_t kElements = 3 * kChunkElements + 77;

struct Layout {
  std::vector<uint32_t> devices;  // by rank
  bool peers = true;              // whether their kernels can access each other's memory
};

// A node whose ranks compute on devices and have published gradients of clock 0.
class DeviceArenasTest : public testing::TestWithParam<Layout> {
 protected:
  DeviceArenasTest() {
    device::ConfigureTestDevices(
        absl::StrCat("devices=2,memory_mb=64,peers=", GetParam().peers ? 1 : 0));
  }

  uint32_t ranks() const { return static_cast<uint32_t>(GetParam().devices.size()); }

  void SetUp() override {
    std::iota(memory_->weights(), memory_->weights() + kElements, 1.0f);
    found_ = device::FindTestDevices();
    const uint32_t last = *absl::c_max_element(GetParam().devices);
    if (last >= found_->infos().size()) GTEST_SKIP() << "there is no device " << last;
    std::vector<std::shared_ptr<device::Device>> used;
    for (uint32_t i = 0; i <= last; ++i) used.push_back(*found_->Use(i));
    DeviceArenasOptions options;
    for (uint32_t device : GetParam().devices) options.devices.push_back(used[device]);
    options.wake = [this] { woken_.Notify(); };
    options.helpers = &helpers_;
    auto arenas = DeviceArenas::Create(memory_.get(), &core_, map_, options);
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    arenas_ = *std::move(arenas);
    devices_ = options.devices;
  }

  // Returns the weights of a rank on its device, as in a process of its own, but without Open.
  std::vector<float> WeightsOf(uint32_t rank) {
    return Download(arenas_->WeightsForTest(rank), rank);
  }
  std::vector<float> Download(const device::Memory& arena, uint32_t rank) {
    std::vector<float> values(kElements);
    auto stream = *devices_[rank]->NewStream(false);
    EXPECT_EQ(stream->Copy(values.data(), arena.get(), kElements * 4), absl::OkStatus());
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    return values;
  }

  // Writes random gradients into every rank's arena; returns their sum.
  std::vector<float> Publish(uint64_t clock) { return Publish(clock, &core_); }
  std::vector<float> Publish(uint64_t clock, AggregatorCore* core) {
    std::mt19937 random(static_cast<uint32_t>(clock) + 1);
    std::uniform_real_distribution<float> values(-1e3f, 1e3f);
    std::vector<std::vector<float>> gradients(ranks(), std::vector<float>(kElements));
    std::vector<const float*> inputs;
    for (uint32_t r = 0; r < ranks(); ++r) {
      for (float& gradient : gradients[r]) gradient = values(random);
      auto stream = *devices_[r]->NewStream(false);
      EXPECT_EQ(
          stream->Copy(arenas_->GradientsForTest(r).get(), gradients[r].data(), kElements * 4),
          absl::OkStatus());
      EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
      inputs.push_back(gradients[r].data());
      memory_->rank(r).samples[clock % kSampleSlots] = 10 + r;
      memory_->rank(r).complete = clock + 1;
    }
    std::vector<float> sum(kElements);
    kernels::Cpu().sum(inputs, sum.data(), kElements);
    const std::vector<uint64_t> ready(ranks(), clock + 1);
    for (uint32_t c = 0; c < map_.chunks(); ++c) EXPECT_TRUE(*core->OnReady(ChunkId(c), ready));
    return sum;
  }

  // A wake-up follows soon after its event, which Poll may have found meanwhile.
  bool IsWoken() const {
    const absl::Time until = absl::Now() + absl::Minutes(1);
    while (!woken_.Drain()) {
      if (absl::Now() > until) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

  // Polls until nothing is queued; returns the chunks that were summed.
  std::vector<uint32_t> Settle() {
    std::vector<ChunkId> summed;
    while (arenas_->busy()) {
      const absl::Status status = arenas_->Poll(&summed);
      EXPECT_EQ(status, absl::OkStatus());
      if (!status.ok()) break;
    }
    std::vector<uint32_t> numbers;
    for (ChunkId chunk : summed) numbers.push_back(chunk.value());
    return numbers;
  }

  const std::unique_ptr<NodeMemory> memory_ = *NodeMemory::Create(kElements, ranks());
  const ChunkMap map_{kElements, kChunkElements};
  AggregatorCore core_{RankId(0), ranks(), map_.chunks()};
  const EventFd woken_ = *EventFd::Create();
  ForkJoin helpers_{2};
  std::shared_ptr<device::Devices> found_;
  std::vector<std::shared_ptr<device::Device>> devices_;
  std::unique_ptr<DeviceArenas> arenas_;
};

TEST_P(DeviceArenasTest, SumsHaveTheBitsOfTheHostsAndAreTakenOnceTheyAreThere) {
  const std::vector<float> expected = Publish(0);
  for (uint32_t c = 0; c < map_.chunks(); ++c)
    EXPECT_FALSE(arenas_->BeginSum(ChunkId(c), 0).value());
  EXPECT_THAT(Settle(), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(IsWoken());
  uint32_t samples = 0;
  for (uint32_t r = 0; r < ranks(); ++r) samples += 10 + r;
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const ExchangeNode::Sum sum = arenas_->TakeSum(ChunkId(c), 0);
    ASSERT_EQ(sum.bytes.size(), map_.ElementsOf(ChunkId(c)) * 4);
    EXPECT_EQ(std::memcmp(sum.bytes.data(), expected.data() + map_.OffsetOf(ChunkId(c)),
                          sum.bytes.size()),
              0)
        << c;
    EXPECT_EQ(sum.step.samples, samples);
    EXPECT_EQ(memory_->consumed(c).load(), 1);
  }
}

TEST_P(DeviceArenasTest, WhatRanksHaveAddedUpIsTakenFromWhereItIsTheChunksTurn) {
  auto arenas = DeviceArenas::Create(memory_.get(), &core_, map_,
                                     {.devices = devices_, .wake = [] {}, .ranks_add_up = true});
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  arenas_ = *std::move(arenas);
  Publish(0);
  const bool has_two = ranks() > 1 && devices_[0] != devices_[1];
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const uint32_t root = has_two ? c % 2 : 0;
    const std::vector<float> expected = Download(arenas_->GradientsForTest(root), root);
    EXPECT_FALSE(arenas_->BeginSum(ChunkId(c), 0).value());
    EXPECT_THAT(Settle(), UnorderedElementsAre(c));
    const ExchangeNode::Sum sum = arenas_->TakeSum(ChunkId(c), 0);
    EXPECT_EQ(std::memcmp(sum.bytes.data(), expected.data() + map_.OffsetOf(ChunkId(c)),
                          sum.bytes.size()),
              0)
        << c;
    EXPECT_EQ(sum.step.samples, 10 * ranks() + ranks() * (ranks() - 1) / 2);
    EXPECT_EQ(memory_->consumed(c).load(), 1);
  }
}

TEST_P(DeviceArenasTest, AJobThatGoesOnLandsItsFirstWeightsForTheStepThatItBeginsWith) {
  core_.BeginAt(6);
  memory_->BeginAt(6, map_.chunks());
  arenas_->LandFirstWeights();
  for (uint32_t c = 0; c < map_.chunks(); ++c) EXPECT_EQ(memory_->landed(c).load(), 7);
  Publish(6);
  EXPECT_FALSE(arenas_->BeginSum(ChunkId(1), 6).value());
  EXPECT_THAT(Settle(), UnorderedElementsAre(1));
  EXPECT_EQ(arenas_->TakeSum(ChunkId(1), 6).step.samples,
            10 * ranks() + ranks() * (ranks() - 1) / 2);
  EXPECT_EQ(memory_->consumed(1).load(), 7);
  EXPECT_EQ(memory_->consumed(0).load(), 6);
  ASSERT_EQ(arenas_->Landed(ChunkId(1), 6), absl::OkStatus());
  Settle();
  EXPECT_EQ(memory_->landed(1).load(), 8);
}

// CUDA delays work in a stream after a host function until that has returned.
TEST_P(DeviceArenasTest, AWakeThatTakesItsTimeHoldsNothingUp) {
  absl::Notification goes_on;
  const auto wake = [&] { goes_on.WaitForNotificationWithTimeout(absl::Minutes(1)); };
  auto arenas =
      DeviceArenas::Create(memory_.get(), &core_, map_, {.devices = devices_, .wake = wake});
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  arenas_ = *std::move(arenas);
  Publish(0);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    EXPECT_FALSE(arenas_->BeginSum(ChunkId(c), 0).value());
  }
  std::vector<ChunkId> summed;
  absl::Status status;
  for (const absl::Time end = absl::Now() + absl::Seconds(10);
       status.ok() && summed.size() < map_.chunks() && absl::Now() < end;) {
    status = arenas_->Poll(&summed);
  }
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(summed.size(), map_.chunks());
  goes_on.Notify();
  arenas_.reset();
}

// A job of this node alone, whose pushes are encoded.
proto::JobRecord Encoding(proto::Encoding::Codec codec) {
  proto::JobRecord record;
  record.mutable_job()->mutable_push()->set_codec(codec);
  record.mutable_view()->add_nodes()->set_ranks(1);
  return record;
}

TEST_P(DeviceArenasTest, EncodedSumsAreThePayloadsOfTheHostsEncoderClockByClock) {
  for (const auto codec : {proto::Encoding::INT8, proto::Encoding::TOP_K}) {
    const proto::JobRecord record = Encoding(codec);
    AggregatorCore core(RankId(0), ranks(), map_.chunks());
    auto arenas = DeviceArenas::Create(
        memory_.get(), &core, map_, {.devices = devices_, .wake = [] {}, .encodes_for = &record});
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    arenas_ = *std::move(arenas);
    const auto encoder = *PushEncoder::Create(record, NodeId(0), map_, kernels::Cpu());
    for (uint64_t clock = 0; clock < 3; ++clock) {
      const std::vector<float> expected = Publish(clock, &core);
      for (uint32_t c = 0; c < map_.chunks(); ++c)
        EXPECT_FALSE(arenas_->BeginSum(ChunkId(c), clock).value());
      EXPECT_THAT(Settle(), UnorderedElementsAre(0, 1, 2, 3));
      for (uint32_t c = 0; c < map_.chunks(); ++c) {
        const ExchangeNode::Sum sum = arenas_->TakeSum(ChunkId(c), clock);
        const Bytes view(
            nullptr,
            reinterpret_cast<const std::byte*>(expected.data() + map_.OffsetOf(ChunkId(c))),
            map_.ElementsOf(ChunkId(c)) * 4);
        const auto payload = encoder->Encode(ChunkId(c), view, sum.step.samples);
        ASSERT_TRUE(payload.ok()) << payload.status();
        ASSERT_EQ(sum.bytes.size(), payload->payload.size());
        EXPECT_EQ(std::memcmp(sum.bytes.data(), payload->payload.data(), sum.bytes.size()), 0)
            << clock << " " << c;
        EXPECT_EQ(arenas_->Landed(ChunkId(c), clock), absl::OkStatus());
      }
      Settle();
    }
  }
}

TEST_P(DeviceArenasTest, ASumThatCannotBeEncodedNamesItsChunkAndClock) {
  const proto::JobRecord record = Encoding(proto::Encoding::FP16);
  auto arenas = DeviceArenas::Create(memory_.get(), &core_, map_,
                                     {.devices = devices_, .wake = [] {}, .encodes_for = &record});
  ASSERT_TRUE(arenas.ok()) << arenas.status();
  arenas_ = *std::move(arenas);
  Publish(0);
  auto stream = *devices_[0]->NewStream(false);
  const float bad = NAN;
  ASSERT_TRUE(
      stream->Copy(arenas_->GradientsForTest(0).get() + (2 * kChunkElements + 5) * 4, &bad, 4)
          .ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_FALSE(arenas_->BeginSum(ChunkId(2), 0).value());
  std::vector<ChunkId> summed;
  absl::Status status;
  while (status.ok() && arenas_->busy()) status = arenas_->Poll(&summed);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("chunk 2 at clock 0: sum of the gradients: an element"));
  EXPECT_TRUE(summed.empty());
}

TEST_P(DeviceArenasTest, WeightsAreOnEveryDeviceWhenRanksAreToldOfThem) {
  std::vector<float> weights = Publish(0);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const size_t count = map_.ElementsOf(ChunkId(c)), half = count / 2;
    const float* const from = weights.data() + map_.OffsetOf(ChunkId(c));
    const auto bytes = [&](size_t begin, size_t size) {
      const std::shared_ptr<float> copy(std::make_unique<float[]>(size).release(),
                                        std::default_delete<float[]>());
      std::copy_n(from + begin, size, copy.get());
      return AsBytes(copy, size);
    };
    memory_->rank(0).waits_for = c + 1;
    const uint32_t bell = memory_->rank(0).bell;
    EXPECT_EQ(arenas_->TakeWeights(ChunkId(c), 0, bytes(0, half)), absl::OkStatus());
    EXPECT_EQ(arenas_->TakeWeights(ChunkId(c), half, bytes(half, count - half)), absl::OkStatus());
    EXPECT_EQ(memory_->landed(c).load(), 0);
    EXPECT_EQ(arenas_->Landed(ChunkId(c), 0), absl::OkStatus());
    Settle();
    EXPECT_EQ(memory_->landed(c).load(), 2);
    EXPECT_NE(memory_->rank(0).bell.load(), bell);
  }
  for (uint32_t r = 0; r < ranks(); ++r) EXPECT_EQ(WeightsOf(r), weights) << r;
  EXPECT_EQ(core_.under_way(), 0);
}

TEST_P(DeviceArenasTest, FirstWeightsAreThoseOfTheHostAndOnEveryDevice) {
  std::vector<float> weights(memory_->weights(), memory_->weights() + kElements);
  EXPECT_NE(weights[0], weights[1]);
  const Bytes first = arenas_->FirstWeights(ChunkId(3));
  EXPECT_EQ(first.size(), 77 * 4);
  EXPECT_EQ(std::memcmp(first.data(), weights.data() + 3 * kChunkElements, first.size()), 0);
  for (uint32_t r = 0; r < ranks(); ++r) EXPECT_EQ(WeightsOf(r), weights) << r;
}

TEST_P(DeviceArenasTest, EncodedWeightsAreAddedOnEveryDevice) {
  const std::vector<float> weights = Publish(0);
  const size_t n = map_.ElementsOf(ChunkId(1));
  std::vector<float> expected(weights.begin() + kChunkElements,
                              weights.begin() + 2 * kChunkElements);
  for (uint32_t r = 0; r < ranks(); ++r) {
    auto stream = *devices_[r]->NewStream(false);
    ASSERT_EQ(stream->Copy(arenas_->WeightsForTest(r).get(), weights.data(), kElements * 4),
              absl::OkStatus());
    ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  }
  std::vector<std::byte> payload(wire::EncodedBytesMax(wire::Codec::kFloat16, n));
  ASSERT_TRUE(kernels::Cpu().codec.float16.encode(weights.data(), kernels::Feedback::kNone, nullptr,
                                                  n, payload.data()));
  const auto delta =
      numerics::CheckedPayload::Check(kernels::Cpu(), wire::Codec::kFloat16, n, payload);
  ASSERT_TRUE(delta.ok()) << delta.status();
  delta->AddTo(expected.data(), expected.data());
  EXPECT_EQ(arenas_->AddToWeights(ChunkId(1), 0, *delta), absl::OkStatus());
  EXPECT_EQ(arenas_->Landed(ChunkId(1), 0), absl::OkStatus());
  Settle();
  for (uint32_t r = 0; r < ranks(); ++r) {
    const std::vector<float> got = WeightsOf(r);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin() + kChunkElements)) << r;
    EXPECT_TRUE(std::equal(weights.begin(), weights.begin() + kChunkElements, got.begin())) << r;
  }
}

// Faults and counters that only fake devices have.
using DeviceArenasOnFake = DeviceArenasTest;

TEST_P(DeviceArenasOnFake, WhatADeviceCannotDoComesOutOfTheCallThatMeetsIt) {
  if (ranks() == 1) GTEST_SKIP() << "one rank's gradients are copied, and no kernel is launched";
  Publish(0);
  device::ConfigureTestDevices("devices=2,memory_mb=64,fails_at=1,error=719");
  std::vector<ChunkId> summed;
  absl::Status status = arenas_->BeginSum(ChunkId(0), 0).status();
  while (status.ok() && arenas_->busy()) status = arenas_->Poll(&summed);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("device ", GetParam().devices[0], ": ")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("unspecified launch failure"));
  EXPECT_TRUE(summed.empty());
  EXPECT_EQ(memory_->consumed(0).load(), 0);
  EXPECT_THAT(std::string(arenas_->BeginSum(ChunkId(1), 0).status().message()),
              HasSubstr("unspecified launch failure"));
}

TEST_P(DeviceArenasOnFake, MemoryIsGivenBack) {
  EXPECT_GT(device::TestDeviceBytes(), arenas_->device_bytes() / 2);
  arenas_.reset();
  EXPECT_EQ(device::TestDeviceBytes(), 0u);
}

TEST_P(DeviceArenasOnFake, ADeviceThatIsTooSmallIsNamedWithWhatWasAsked) {
  device::ConfigureTestDevices("devices=2,memory_kb=10");
  arenas_.reset();
  auto arenas = DeviceArenas::Create(memory_.get(), &core_, map_, {devices_, [] {}});
  EXPECT_EQ(arenas.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(arenas.status().message()), HasSubstr("asked for"));
  EXPECT_EQ(device::TestDeviceBytes(), 0u);
}

// One rank; three on one device; on two alternating devices with and without mutual access.
const auto kLayouts = testing::Values(Layout{{0}}, Layout{{0, 0, 0}}, Layout{{1, 0, 1, 0}},
                                      Layout{{1, 0, 1, 0}, false});
std::string NameOf(const testing::TestParamInfo<Layout>& info) {
  std::string name = info.param.peers ? "Devices" : "WithoutPeersDevices";
  for (uint32_t device : info.param.devices) absl::StrAppend(&name, device);
  return name;
}
INSTANTIATE_TEST_SUITE_P(Layouts, DeviceArenasTest, kLayouts, NameOf);
INSTANTIATE_TEST_SUITE_P(Layouts, DeviceArenasOnFake, kLayouts, NameOf);

}  // namespace
}  // namespace strata::worker
