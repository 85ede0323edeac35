// Trace events of arenas on devices, on the fake device.
#include "worker/contract/device_trace.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/kernels.h"
#include "worker/aggregator/device/device_arenas.h"

namespace strata::worker {
namespace {

using proto::TraceEvent;

constexpr uint32_t kChunkElements = 512;
constexpr uint64_t kElements = 3 * kChunkElements + 77;
constexpr uint32_t kDelayUs = 500;  // per copy and kernel

int64_t BeginOf(const TraceEvent& event) { return static_cast<int64_t>(event.start_us()); }
int64_t EndOf(const TraceEvent& event) { return BeginOf(event) + event.duration_us(); }

class DeviceTraceTest : public testing::TestWithParam<std::vector<uint32_t>> {
 protected:
  DeviceTraceTest() {
    fake_cuda::Configure({.devices = 2, .memory_bytes = 64 << 20, .delay_us = kDelayUs});
    const auto found = *cuda::FindDevices();
    const std::vector<std::shared_ptr<device::Device>> used = {*found->Use(0), *found->Use(1)};
    for (uint32_t device : GetParam()) devices_.push_back(used[device]);
    // Traces the second of the steps 0, 1 and 2.
    record_.mutable_job()->mutable_trace()->set_first_step(1);
    record_.mutable_job()->mutable_trace()->set_steps(1);
    record_.mutable_view()->add_nodes()->set_ranks(1);
    record_.mutable_job()->mutable_push()->set_codec(proto::Encoding::FP16);
    log_ = TraceLog::Create(record_.job());
  }
  ~DeviceTraceTest() override {
    arenas_.reset();
    fake_cuda::Configure({});
  }

  uint32_t ranks() const { return static_cast<uint32_t>(GetParam().size()); }
  size_t places() const { return std::set<uint32_t>(GetParam().begin(), GetParam().end()).size(); }
  // Devices take turns, in order of their lowest ranks.
  uint32_t AdderOf(uint32_t chunk) const { return GetParam()[chunk % places()]; }

  void Create(TraceLog* log, bool encodes) {
    arenas_.reset();
    core_.emplace(RankId(0), ranks(), map_.chunks());
    auto arenas = DeviceArenas::Create(memory_.get(), &*core_, map_,
                                       {.devices = devices_,
                                        .wake = [] {},
                                        .encodes_for = encodes ? &record_ : nullptr,
                                        .trace = log});
    ASSERT_TRUE(arenas.ok()) << arenas.status();
    arenas_ = *std::move(arenas);
    for (uint32_t r = 0; r < ranks(); ++r) {
      const auto stream = *devices_[r]->NewStream(false);
      ASSERT_TRUE(stream->Fill(arenas_->GradientsForTest(r).get(), 0, kElements * 4).ok());
      ASSERT_TRUE(stream->Synchronize().ok());
    }
  }

  void Settle() {
    std::vector<ChunkId> summed;
    while (arenas_->busy()) ASSERT_EQ(arenas_->Poll(&summed), absl::OkStatus());
  }

  void BeginSum(uint32_t chunk, uint64_t clock) {
    const std::vector<uint64_t> ready(ranks(), clock + 1);
    ASSERT_TRUE(*core_->OnReady(ChunkId(chunk), ready));
    EXPECT_FALSE(arenas_->BeginSum(ChunkId(chunk), clock).value());
  }

  // The answer equals what was sent.
  void Answer(uint32_t chunk, uint64_t clock, bool encodes) {
    const ExchangeNode::Sum sum = arenas_->TakeSum(ChunkId(chunk), clock);
    if (encodes) {
      const absl::Span<const std::byte> payload(sum.bytes.data(), sum.bytes.size());
      const auto checked = numerics::CheckedPayload::Check(
          kernels::Cpu(), wire::Codec::kFloat16, map_.ElementsOf(ChunkId(chunk)), payload);
      ASSERT_TRUE(checked.ok()) << checked.status();
      EXPECT_EQ(arenas_->AddToWeights(ChunkId(chunk), 0, *checked), absl::OkStatus());
    } else {
      EXPECT_EQ(arenas_->TakeWeights(ChunkId(chunk), 0, sum.bytes), absl::OkStatus());
    }
    EXPECT_EQ(arenas_->Landed(ChunkId(chunk), clock), absl::OkStatus());
  }

  // All chunks' sums are done before the first answer.
  void Step(uint64_t clock, bool encodes) {
    for (uint32_t c = 0; c < map_.chunks(); ++c) BeginSum(c, clock);
    Settle();
    for (uint32_t c = 0; c < map_.chunks(); ++c) Answer(c, clock, encodes);
    Settle();
  }

  // Returns them by chunk, in the order in which they were recorded.
  std::map<uint32_t, std::vector<TraceEvent>> Events() {
    std::map<uint32_t, std::vector<TraceEvent>> events;
    const proto::TraceBatch batch = log_->TakeBatch();
    for (const TraceEvent& event : batch.events()) {
      events[event.chunk()].push_back(event);
    }
    return events;
  }

  // Checks the phases of a chunk, without its copies to the devices.
  void ExpectWay(const std::vector<TraceEvent>& events, bool encodes) {
    std::vector<TraceEvent::Phase> way;
    if (ranks() > 1) way.push_back(TraceEvent::SUM);
    if (encodes) way.push_back(TraceEvent::ENCODE);
    way.push_back(TraceEvent::TO_HOST);
    ASSERT_EQ(events.size(), way.size() + places() * (encodes ? 2 : 1));
    for (size_t i = 0; i < way.size(); ++i) {
      EXPECT_EQ(events[i].phase(), way[i]);
      EXPECT_EQ(events[i].device(), AdderOf(events[i].chunk()) + 1);
      if (i == 0) continue;
      if (way[i] == TraceEvent::TO_HOST) {
        EXPECT_LE(EndOf(events[i - 1]), BeginOf(events[i]));
      } else {
        EXPECT_EQ(EndOf(events[i - 1]), BeginOf(events[i]));
      }
    }
    std::set<uint32_t> reached;
    for (size_t i = way.size(); i < events.size(); ++i) {
      EXPECT_EQ(events[i].phase(), TraceEvent::TO_DEVICE);
      EXPECT_GE(BeginOf(events[i]), EndOf(events[way.size() - 1]));
      reached.insert(events[i].device());
      if (!encodes) continue;
      ++i;
      EXPECT_EQ(events[i].phase(), TraceEvent::DECODE);
      EXPECT_EQ(events[i].device(), events[i - 1].device());
      EXPECT_EQ(BeginOf(events[i]), EndOf(events[i - 1]));
    }
    EXPECT_EQ(reached.size(), places());
  }

  std::vector<std::shared_ptr<device::Device>> devices_;
  proto::JobRecord record_;
  std::unique_ptr<TraceLog> log_;
  const std::unique_ptr<NodeMemory> memory_ = *NodeMemory::Create(kElements, ranks());
  const ChunkMap map_{kElements, kChunkElements};
  std::optional<AggregatorCore> core_;
  std::unique_ptr<DeviceArenas> arenas_;
};

TEST_P(DeviceTraceTest, HasWhatDevicesDoForEachChunkOfTracedStepsAndOfNoOthers) {
  for (const bool encodes : {false, true}) {
    Create(log_.get(), encodes);
    EXPECT_TRUE(arenas_->Notes(TraceEvent::SUM));
    EXPECT_EQ(arenas_->Notes(TraceEvent::ENCODE), encodes);
    const uint64_t made = fake_cuda::TimedEvents();
    Step(0, encodes);
    EXPECT_EQ(fake_cuda::TimedEvents(), made);
    const absl::Time before = absl::Now();
    Step(1, encodes);
    const absl::Time after = absl::Now();
    EXPECT_GT(fake_cuda::TimedEvents(), made);
    Step(2, encodes);
    const auto events = Events();
    ASSERT_EQ(events.size(), map_.chunks());
    for (const auto& [chunk, of_chunk] : events) {
      ExpectWay(of_chunk, encodes);
      for (const TraceEvent& event : of_chunk) {
        EXPECT_EQ(event.clock(), 1);
        EXPECT_GE(BeginOf(event), absl::ToUnixMicros(before));
        EXPECT_LE(EndOf(event), absl::ToUnixMicros(after));
      }
    }
  }
}

// Each stream is one row of the timeline.
TEST_P(DeviceTraceTest, SpansOfOneStreamFollowOneAnother) {
  Create(log_.get(), /*encodes=*/false);
  Step(0, false);
  Step(1, false);
  std::map<std::tuple<uint32_t, TraceEvent::Phase>, int64_t> ends;
  const proto::TraceBatch batch = log_->TakeBatch();
  for (const TraceEvent& event : batch.events()) {
    int64_t& end = ends[{event.device(), event.phase()}];
    EXPECT_GE(BeginOf(event), end);
    end = EndOf(event);
  }
  EXPECT_EQ(ends.size(), (ranks() > 1 ? 3 : 2) * places());
}

TEST_P(DeviceTraceTest, ASpanLastsAsLongAsItsWork) {
  Create(log_.get(), /*encodes=*/true);
  Step(0, true);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    BeginSum(c, 1);
    Settle();
    Answer(c, 1, true);
    Settle();
  }
  const proto::TraceBatch batch = log_->TakeBatch();
  for (const TraceEvent& event : batch.events()) {
    EXPECT_GE(event.duration_us(), kDelayUs - 2) << event.ShortDebugString();
  }
}

TEST_P(DeviceTraceTest, WithoutATraceNoEventIsTimed) {
  const uint64_t made = fake_cuda::TimedEvents();
  Create(nullptr, /*encodes=*/false);
  Step(0, false);
  Step(1, false);
  EXPECT_EQ(fake_cuda::TimedEvents(), made);
  EXPECT_TRUE(Events().empty());
}

INSTANTIATE_TEST_SUITE_P(Layouts, DeviceTraceTest,
                         testing::Values(std::vector<uint32_t>{0}, std::vector<uint32_t>{0, 0},
                                         std::vector<uint32_t>{1, 0, 1, 0}));

}  // namespace
}  // namespace strata::worker
