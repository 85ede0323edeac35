#include "worker/aggregator/device/device_encoder.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "kernels/kernels.h"
#include "worker/exchange/server/push_encoder.h"

namespace strata::worker {
namespace {

constexpr uint64_t kElements = 3 * 1000 + 77;
constexpr uint32_t kChunkElements = 1000;

proto::JobRecord Record(const proto::Encoding& push) {
  proto::JobRecord record;
  *record.mutable_job()->mutable_push() = push;
  record.set_samples_per_epoch(200);
  proto::LogicalNode* node = record.mutable_view()->add_nodes();
  node->set_node(0);
  node->set_ranks(1);
  return record;
}

proto::Encoding Push(proto::Encoding::Codec codec, float density = 0) {
  proto::Encoding push;
  push.set_codec(codec);
  if (density > 0) push.set_density(density);
  if (codec == proto::Encoding::DGC) {
    push.set_momentum(0.9f);
    push.set_warmup_epochs(1);
  }
  return push;
}

class DeviceEncoderTest : public testing::TestWithParam<proto::Encoding> {
 protected:
  DeviceEncoderTest() {
    device_ = *device::FindTestDevices()->Use(0);
    stream_ = *device_->NewStream(false);
    copies_ = *device_->NewStream(false);
    encoded_ = *device_->NewEvent();
    sums_ = *device_->Allocate(kElements * sizeof(float), "sums");
  }

  std::unique_ptr<DeviceEncoder> New(const proto::Encoding& push) {
    auto encoder = DeviceEncoder::Create(Record(push), NodeId(0), map_, {}, device_, stream_.get());
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    return *std::move(encoder);
  }

  // Returns the payloads of all chunks, which are all queued before the first is examined.
  std::vector<absl::StatusOr<Bytes>> Encode(DeviceEncoder* encoder, const std::vector<float>& sum,
                                            uint32_t samples) {
    std::vector<std::shared_ptr<std::byte>> hosts;
    EXPECT_TRUE(stream_->Copy(sums_.get(), sum.data(), kElements * sizeof(float)).ok());
    for (uint32_t c = 0; c < map_.chunks(); ++c) {
      hosts.push_back(*device_->AllocatePinned(encoder->host_bytes(ChunkId(c)), "a payload"));
      const auto* const at =
          reinterpret_cast<const float*>(sums_.get()) + map_.OffsetOf(ChunkId(c));
      const auto outcome = encoder->Encode(ChunkId(c), at, samples, stream_.get());
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_TRUE(stream_->Record(encoded_.get()).ok());
      EXPECT_TRUE(copies_->Wait(*encoded_).ok());
      EXPECT_TRUE(copies_->Copy(hosts.back().get(), outcome->at, outcome->bytes).ok());
      EXPECT_TRUE(copies_->Record(outcome->copied).ok());
    }
    EXPECT_TRUE(copies_->Synchronize().ok());
    std::vector<absl::StatusOr<Bytes>> payloads;
    for (uint32_t c = 0; c < map_.chunks(); ++c) {
      payloads.push_back(encoder->PayloadIn(hosts[c], ChunkId(c)));
    }
    return payloads;
  }

  const ChunkMap map_{kElements, kChunkElements};
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_, copies_;
  std::unique_ptr<device::Event> encoded_;
  device::Memory sums_;
};

// Every seventh step has zeros almost everywhere, so that sparse payloads are shorter.
std::vector<float> SumOf(int step, std::mt19937* random) {
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> sum(kElements);
  for (float& element : sum) {
    element = values(*random) * std::ldexp(1.0f, static_cast<int>((*random)() % 20));
    if (step % 7 == 0 && (*random)() % 300 != 0) element = 0;
  }
  return sum;
}

TEST_P(DeviceEncoderTest, PayloadsAreThoseOfTheHostsEncoderStepByStep) {
  const auto on_device = New(GetParam());
  const auto on_host = *PushEncoder::Create(Record(GetParam()), NodeId(0), map_, kernels::Cpu());
  std::mt19937 random(1);
  for (int step = 0; step < 30; ++step) {
    const std::vector<float> sum = SumOf(step, &random);
    const auto payloads = Encode(on_device.get(), sum, 16);
    for (uint32_t c = 0; c < map_.chunks(); ++c) {
      const Bytes view(nullptr,
                       reinterpret_cast<const std::byte*>(sum.data() + map_.OffsetOf(ChunkId(c))),
                       map_.ElementsOf(ChunkId(c)) * sizeof(float));
      const auto expected = on_host->Encode(ChunkId(c), view, 16);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(payloads[c].ok()) << payloads[c].status();
      ASSERT_EQ(on_device->codec(), expected->codec);
      ASSERT_EQ(payloads[c]->size(), expected->payload.size()) << "step " << step;
      ASSERT_EQ(std::memcmp(payloads[c]->data(), expected->payload.data(), payloads[c]->size()), 0)
          << "step " << step << " chunk " << c;
    }
  }
}

TEST_P(DeviceEncoderTest, OneChunkIsEncodedWhileAnotherIsCopiedAndAThirdWaits) {
  const auto encoder = New(GetParam());
  const std::vector<float> sum(kElements, 0.5f);
  ASSERT_TRUE(stream_->Copy(sums_.get(), sum.data(), kElements * sizeof(float)).ok());
  absl::Notification opens;
  ASSERT_TRUE(copies_->Call([&] { opens.WaitForNotificationWithTimeout(absl::Minutes(1)); }).ok());
  std::vector<std::unique_ptr<device::Event>> encoded;
  for (const ChunkId chunk : {ChunkId(0), ChunkId(1), ChunkId(2)}) {
    const auto* const at = reinterpret_cast<const float*>(sums_.get()) + map_.OffsetOf(chunk);
    const auto outcome = encoder->Encode(chunk, at, 16, stream_.get());
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    encoded.push_back(*device_->NewEvent());
    ASSERT_TRUE(stream_->Record(encoded.back().get()).ok());
    ASSERT_TRUE(copies_->Record(outcome->copied).ok());
  }
  EXPECT_EQ(encoded[1]->Await(), absl::OkStatus());
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(*encoded[2]->Done());
  opens.Notify();
  EXPECT_EQ(encoded[2]->Await(), absl::OkStatus());
  EXPECT_EQ(copies_->Synchronize(), absl::OkStatus());
}

TEST_P(DeviceEncoderTest, ASumThatIsNotFiniteIsRefusedAndOtherChunksAreNot) {
  const auto encoder = New(GetParam());
  std::vector<float> sum(kElements, 0.5f);
  sum[kChunkElements + 3] = INFINITY;
  const auto payloads = Encode(encoder.get(), sum, 1);
  EXPECT_EQ(payloads[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(payloads[1].status().message().find("NaN, infinite or too large"), std::string::npos);
  EXPECT_TRUE(payloads[0].ok() && payloads[2].ok() && payloads[3].ok());
}

INSTANTIATE_TEST_SUITE_P(Codecs, DeviceEncoderTest,
                         testing::Values(Push(proto::Encoding::FP16), Push(proto::Encoding::BF16),
                                         Push(proto::Encoding::INT8),
                                         Push(proto::Encoding::ONE_BIT),
                                         Push(proto::Encoding::TOP_K),
                                         Push(proto::Encoding::TOP_K, 0.25f),
                                         Push(proto::Encoding::DGC, 0.002f)),
                         [](const testing::TestParamInfo<proto::Encoding>& info) {
                           std::string name = proto::Encoding::Codec_Name(info.param.codec()) +
                                              "_" + std::to_string(info.index);
                           return name;
                         });

TEST_F(DeviceEncoderTest, WhatIsNotEncodedIsRefused) {
  const auto encoder =
      DeviceEncoder::Create(Record({}), NodeId(0), map_, {}, device_, stream_.get());
  EXPECT_EQ(encoder.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::worker
