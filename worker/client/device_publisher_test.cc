#include "worker/client/device_publisher.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/fake_cuda/control.h"

namespace strata::client {
namespace {

using testing::ElementsAre;

class DevicePublisherTest : public testing::Test {
 protected:
  DevicePublisherTest() { fake_cuda::Configure({.delay_us = 2000}); }

  // Queues 2 ms of work.
  absl::Status Compute() {
    return stream_->Fill(memory_.get(), static_cast<uint8_t>(++computed_), 64);
  }
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
    for (ChunkId chunk : chunks) published_.emplace_back(chunk.value(), step);
    uint8_t newest = 0;
    EXPECT_TRUE(reader_->Copy(&newest, memory_.get(), 1).ok());
    EXPECT_TRUE(reader_->Synchronize().ok());
    seen_.push_back(newest);
    return published_.size() > fails_after_ ? absl::UnavailableError("gone") : absl::OkStatus();
  }

  const std::unique_ptr<device::Devices> devices_ = *cuda::FindDevices();
  const std::shared_ptr<device::Device> device_ = *devices_->Use(0);
  const device::Memory memory_ = *device_->Allocate(64, "a test");
  const std::unique_ptr<device::Stream> stream_ = *device_->NewStream(false);
  const std::unique_ptr<device::Stream> reader_ = *device_->NewStream(true);
  int computed_ = 0;
  size_t fails_after_ = 100;
  std::vector<std::pair<uint32_t, uint64_t>> published_;  // chunk, step
  std::vector<int> seen_;
  std::unique_ptr<DevicePublisher> publisher_ = std::make_unique<DevicePublisher>(
      device_,
      [this](absl::Span<const ChunkId> chunks, uint64_t step) { return Publish(chunks, step); });
};

TEST_F(DevicePublisherTest, PublishesInOrderWhatHasBeenComputed) {
  for (uint32_t c = 0; c < 4; ++c) {
    ASSERT_EQ(Compute(), absl::OkStatus());
    const std::vector<ChunkId> chunks = {ChunkId(2 * c), ChunkId(2 * c + 1)};
    ASSERT_EQ(publisher_->PublishAfter(stream_.get(), chunks, 7), absl::OkStatus());
  }
  ASSERT_EQ(publisher_->Drain(), absl::OkStatus());
  ASSERT_EQ(published_.size(), 8u);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(published_[i], std::pair(i, uint64_t{7}));
  for (int i = 0; i < 4; ++i) EXPECT_GE(seen_[i], i + 1);
}

TEST_F(DevicePublisherTest, NothingFollowsWhatWentWrong) {
  fails_after_ = 1;
  for (uint32_t c = 0; c < 4; ++c) {
    ASSERT_EQ(Compute(), absl::OkStatus());
    publisher_->PublishAfter(stream_.get(), {ChunkId(c)}, 0).IgnoreError();
  }
  EXPECT_EQ(publisher_->Drain(), absl::UnavailableError("gone"));
  EXPECT_THAT(published_, ElementsAre(std::pair(0u, 0u), std::pair(1u, 0u)));
  EXPECT_EQ(publisher_->PublishAfter(stream_.get(), {ChunkId(9)}, 1),
            absl::UnavailableError("gone"));
}

TEST_F(DevicePublisherTest, WhatIsNotPublishedWhenItEndsIsDropped) {
  for (uint32_t c = 0; c < 50; ++c) {
    ASSERT_EQ(Compute(), absl::OkStatus());
    ASSERT_EQ(publisher_->PublishAfter(stream_.get(), {ChunkId(c)}, 0), absl::OkStatus());
  }
  publisher_.reset();
  EXPECT_LT(published_.size(), 50u);
}

TEST_F(DevicePublisherTest, TheProgramEndsItsWaitAndMayWaitAgain) {
  absl::Notification goes_on;
  ASSERT_EQ(stream_->Call([&] { goes_on.WaitForNotification(); }), absl::OkStatus());
  ASSERT_EQ(publisher_->PublishAfter(stream_.get(), {ChunkId(0)}, 0), absl::OkStatus());
  const absl::Status interrupted = absl::CancelledError("interrupted");
  EXPECT_EQ(publisher_->Drain([&] { return interrupted; }), interrupted);
  EXPECT_THAT(published_, ElementsAre());
  goes_on.Notify();
  EXPECT_EQ(publisher_->Drain(), absl::OkStatus());
  EXPECT_EQ(published_.size(), 1u);
}

}  // namespace
}  // namespace strata::client
