#include "kernels/fake_cuda/memory.h"

#include <cuda_runtime.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/testing.h"

namespace fake_cuda {
namespace {

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() {
    Configure({});
    cudaSetDevice(0);
  }
  ~MemoryTest() override { Configure({}); }

  OwnedStream stream_ = NewStream();
};
using MemoryDeathTest = MemoryTest;

TEST_F(MemoryDeathTest, TheHostsAccessFaults) {
  const Array<int> array(4);
  volatile int* const at = array.at();
  EXPECT_EXIT(*at = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(std::exit(at[3]), testing::KilledBySignal(SIGSEGV), "");
}

__global__ void Write(int* at, size_t i) { at[i] = 1; }

// An access beyond the page is caught at once; one within it, by the conformance suite.
TEST_F(MemoryDeathTest, AKernelThatReachesFarBehindAnAllocationFaults) {
  const auto launch = [](size_t i) {
    const OwnedStream stream = NewStream();
    const Array<int> array(1024), next(1024);
    LaunchOn(stream, 1, 1, &Write, array.at(), i);
    std::exit(cudaStreamSynchronize(stream.get()) == cudaSuccess ? 0 : 1);
  };
  EXPECT_EXIT(launch(1023), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(launch(1024), testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(MemoryTest, FreshMemoryIsNotZeroAlsoWhereOtherMemoryWasBefore) {
  for (int round = 0; round < 3; ++round) {
    const Array<uint8_t> array(5000);
    const std::vector<uint8_t> values = array.Read(stream_.get());
    EXPECT_EQ(std::count(values.begin(), values.end(), 0), 0);
    cudaMemsetAsync(array.at(), 0, array.bytes(), stream_.get());
    cudaStreamSynchronize(stream_.get());
  }
}

TEST_F(MemoryTest, AllocationsLieApartAtMultiplesOf256AndAreNotUsedAnew) {
  std::set<const uint8_t*> seen;
  for (size_t bytes : {1, 255, 4096, 4097, 100'000}) {
    const Array<uint8_t> array(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.at()) % 256, 0u);
    EXPECT_TRUE(seen.insert(array.at()).second);
  }
}

// Ways to touch what is not there.
enum class Wrong { kFreed, kNeverAllocated, kBehind, kFreedByKernel };

class IllegalAddressTest : public testing::TestWithParam<Wrong> {};

TEST_P(IllegalAddressTest, EndsAllWorkOfTheProcessAndStays) {
  Configure({});
  const OwnedStream stream = NewStream(), other = NewStream();
  std::vector<int> host(64, 7);
  {
    const Array<int> good(64);
    int* freed = nullptr;
    {
      const Array<int> gone(64);
      freed = gone.at();
    }
    const auto copy = [&](const int* from) {
      cudaMemcpyAsync(host.data(), from, 64 * sizeof(int), cudaMemcpyDefault, stream.get());
    };
    if (GetParam() == Wrong::kFreed) copy(freed);
    if (GetParam() == Wrong::kNeverAllocated) copy(good.at() + (size_t{1} << 30));
    if (GetParam() == Wrong::kBehind) copy(good.at() + 1);
    if (GetParam() == Wrong::kFreedByKernel) LaunchOn(stream, 1, 1, &Write, freed, size_t{0});
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);

    void* memory = nullptr;
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorIllegalAddress);
    cudaFree(memory);
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    cudaMemcpyAsync(host.data(), good.at(), good.bytes(), cudaMemcpyDefault, other.get());
    EXPECT_EQ(cudaStreamSynchronize(other.get()), cudaErrorIllegalAddress);
  }
  EXPECT_EQ(host, std::vector<int>(64, 7));
  EXPECT_EQ(AllocatedBytes(), 0u) << "memory is given back all the same";
  Configure({});
}

INSTANTIATE_TEST_SUITE_P(Ways, IllegalAddressTest,
                         testing::Values(Wrong::kFreed, Wrong::kNeverAllocated, Wrong::kBehind,
                                         Wrong::kFreedByKernel));

TEST_F(MemoryTest, WhatWasNeverAllocatedOrIsFreedCannotBeFreed) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
  EXPECT_EQ(cudaFree(static_cast<std::byte*>(memory) + 256), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(MemoryTest, EachDeviceHasItsMemoryAndRefusesMore) {
  Settings settings;
  settings.devices = 2;
  settings.memory_bytes = 100'000;
  Configure(settings);
  size_t free = 0, total = 0;
  void* too_much = &free;
  {
    const Array<std::byte> most(60'000);
    EXPECT_EQ(AllocatedBytes(), 60'000u);
    EXPECT_EQ(cudaMalloc(&too_much, 40'001), cudaErrorMemoryAllocation);
    EXPECT_EQ(too_much, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it does not stay";
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(free, 40'000u);
    EXPECT_EQ(total, 100'000u);
    const Array<std::byte> rest(40'000);
    EXPECT_NE(rest.at(), nullptr);

    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(free, 100'000u);
    const Array<std::byte> on_the_other(100'000);
    EXPECT_NE(on_the_other.at(), nullptr);
    EXPECT_EQ(AllocatedBytes(), 200'000u);
  }
  EXPECT_EQ(AllocatedBytes(), 0u);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
}

__global__ void AddOne(int* at) { at[threadIdx.x] += 1; }

TEST_F(MemoryTest, AnotherProcessOpensItWritesToItAndTheOwnerSeesThat) {
  const Array<int> array(32);
  cudaMemsetAsync(array.at(), 0, array.bytes(), stream_.get());
  cudaStreamSynchronize(stream_.get());
  cudaIpcMemHandle_t handle;
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, array.at()), cudaSuccess);
  OtherProcess other([&](OtherProcess::Line& line) {
    const OwnedStream stream = NewStream();
    void* opened = nullptr;
    if (cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess)
      return;
    const bool counted = OpenedBytes() == 32 * sizeof(int);
    LaunchOn(stream, 1, 32, &AddOne, static_cast<int*>(opened));
    const bool ran = cudaStreamSynchronize(stream.get()) == cudaSuccess;
    const bool closed = cudaIpcCloseMemHandle(opened) == cudaSuccess && OpenedBytes() == 0;
    // Closed, it is no memory of that process's any more.
    LaunchOn(stream, 1, 32, &AddOne, static_cast<int*>(opened));
    const bool gone = cudaStreamSynchronize(stream.get()) == cudaErrorIllegalAddress;
    const bool results[] = {counted, ran, closed, gone};
    line.Send(results, sizeof results);
  });
  bool results[4] = {};
  ASSERT_TRUE(other.line().Receive(results, sizeof results));
  for (const bool result : results) EXPECT_TRUE(result);
  EXPECT_EQ(other.End(), 0);
  EXPECT_EQ(array.Read(stream_.get()), std::vector<int>(32, 1));
}

TEST_F(MemoryTest, WhatAnotherProcessSharesGoesWithIt) {
  OtherProcess other([](OtherProcess::Line& line) {
    const Array<int> array(1000);
    cudaIpcMemHandle_t handle;
    cudaIpcGetMemHandle(&handle, array.at());
    line.Send(&handle, sizeof handle);
    char waits;
    line.Receive(&waits, 1);
  });
  cudaIpcMemHandle_t handle;
  ASSERT_TRUE(other.line().Receive(&handle, sizeof handle));
  void* opened = nullptr;
  ASSERT_EQ(cudaIpcOpenMemHandle(&opened, handle, 0), cudaSuccess);
  EXPECT_EQ(OpenedBytes(), 4000u);
  EXPECT_EQ(AllocatedBytes(), 0u) << "it is the other's";
  EXPECT_EQ(cudaFree(opened), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcCloseMemHandle(opened), cudaSuccess);
  EXPECT_EQ(cudaIpcCloseMemHandle(opened), cudaErrorInvalidValue);
  EXPECT_EQ(other.End(), 0);
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, 0), cudaErrorMapBufferObjectFailed);
  EXPECT_EQ(OpenedBytes(), 0u);
}

TEST_F(MemoryTest, HandlesOfOnesOwnMemoryOrOfNothingAreRefused) {
  const Array<int> array(10);
  cudaIpcMemHandle_t handle;
  void* opened = nullptr;
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, array.at() + 1), cudaErrorInvalidValue);
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, array.at()), cudaSuccess);
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, 0), cudaErrorMapBufferObjectFailed);
  std::memset(&handle, 0x11, sizeof handle);
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, 0), cudaErrorMapBufferObjectFailed);
}

}  // namespace
}  // namespace fake_cuda
