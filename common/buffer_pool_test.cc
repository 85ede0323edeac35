#include "common/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace strata {
namespace {

TEST(BufferPool, BuffersAreAlignedTo64Bytes) {
  BufferPool pool;
  for (const size_t bytes : {0, 1, 63, 64, 65, 4096, 1 << 20}) {
    const std::shared_ptr<std::byte> buffer = pool.AllocateBytes(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 64, 0) << bytes;
    std::memset(buffer.get(), 1, bytes);
  }
}

TEST(BufferPool, AFreedBufferIsHandedOutAgain) {
  BufferPool pool;
  std::shared_ptr<float> buffer = pool.AllocateFloats(1000);
  const float* address = buffer.get();
  EXPECT_EQ(pool.retained_bytes(), 0);
  buffer.reset();
  EXPECT_EQ(pool.retained_bytes(), 4032);
  buffer = pool.AllocateFloats(1000);
  EXPECT_EQ(buffer.get(), address);
  EXPECT_EQ(pool.retained_bytes(), 0);
}

TEST(BufferPool, AnotherSizeGetsAnotherBuffer) {
  BufferPool pool;
  pool.AllocateBytes(4096);
  const std::shared_ptr<std::byte> larger = pool.AllocateBytes(8192);
  std::memset(larger.get(), 1, 8192);
  EXPECT_EQ(pool.retained_bytes(), 4096);
}

TEST(BufferPool, NoMoreThanTheLimitIsRetained) {
  BufferPool pool(8192);
  std::vector<std::shared_ptr<std::byte>> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(pool.AllocateBytes(4096));
  buffers.clear();
  EXPECT_EQ(pool.retained_bytes(), 8192);
}

TEST(BufferPool, MoreIsRetainedWhileSomebodyWantsIt) {
  BufferPool pool(4096);
  const auto use = [&pool] {
    std::vector<std::shared_ptr<std::byte>> buffers;
    for (int i = 0; i < 5; ++i) buffers.push_back(pool.AllocateBytes(4096));
  };
  std::shared_ptr<void> more = pool.RetainMore(3 * 4096);
  use();
  EXPECT_EQ(pool.retained_bytes(), 4 * 4096);
  EXPECT_EQ(pool.allocated_bytes(), 4 * 4096);
  const std::shared_ptr<void> one_more = pool.RetainMore(4096);
  use();
  EXPECT_EQ(pool.retained_bytes(), 5 * 4096);
  more.reset();
  EXPECT_EQ(pool.retained_bytes(), 2 * 4096);
  EXPECT_EQ(pool.allocated_bytes(), 2 * 4096);
  use();
  EXPECT_EQ(pool.retained_bytes(), 2 * 4096);
}

TEST(BufferPool, WhatIsRetainedInAdditionMayOutliveThePool) {
  auto pool = std::make_unique<BufferPool>();
  std::shared_ptr<void> more = pool->RetainMore(4096);
  pool->AllocateBytes(4096);
  pool.reset();
  more.reset();
}

TEST(BufferPool, BuffersMayOutliveThePool) {
  auto pool = std::make_unique<BufferPool>();
  std::shared_ptr<float> buffer = pool->AllocateFloats(100);
  const Bytes bytes = AsBytes(buffer, 100);
  pool.reset();
  buffer.get()[99] = 7;
  buffer.reset();
  EXPECT_EQ(bytes.size(), 400);
  EXPECT_EQ(bytes.floats()[99], 7);
}

TEST(BufferPool, ThreadsShareIt) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const std::shared_ptr<std::byte> buffer = pool.AllocateBytes(256);
        std::memset(buffer.get(), t, 256);
        for (int at = 0; at < 256; ++at) EXPECT_EQ(static_cast<int>(buffer.get()[at]), t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool.retained_bytes(), 4 * 256);
}

}  // namespace
}  // namespace strata
