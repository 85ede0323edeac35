#include "kernels/fake_cuda/execution.h"

#include <cuda_runtime.h>

#include <bit>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/testing.h"

namespace fake_cuda {
namespace {

class ExecutionTest : public testing::Test {
 protected:
  ExecutionTest() { Configure({}); }
  ~ExecutionTest() override { Configure({}); }

  OwnedStream stream_ = NewStream();
};

__global__ void WritePlaces(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] += block * 1000 + thread;
}

TEST_F(ExecutionTest, EveryThreadOfEveryBlockRunsOnceWithItsPlace) {
  const dim3 blocks = {3, 2, 2}, threads = {5, 3, 4};
  Array<unsigned> out(12 * 60);
  cudaMemsetAsync(out.at(), 0, out.bytes(), stream_.get());
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream_.get();
  ASSERT_EQ(cudaLaunchKernelEx(&config, &WritePlaces, out.at()), cudaSuccess);
  const std::vector<unsigned> places = out.Read(stream_.get());
  for (unsigned block = 0; block < 12; ++block) {
    for (unsigned thread = 0; thread < 60; ++thread) {
      ASSERT_EQ(places[block * 60 + thread], block * 1000 + thread);
    }
  }
}

// With each barrier it takes another thread's value, of another warp's, too.
template <bool kBarriers>
__global__ void Rotate(unsigned* out, unsigned rounds) {
  __shared__ unsigned values[1024];
  values[threadIdx.x] = threadIdx.x;
  if (kBarriers) __syncthreads();
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned next = values[(threadIdx.x + 33) % blockDim.x];
    if (kBarriers) __syncthreads();
    values[threadIdx.x] = next;
    if (kBarriers) __syncthreads();
  }
  out[threadIdx.x] = values[threadIdx.x];
}

TEST_F(ExecutionTest, ABarrierWaitsForAllThreadsOfTheBlock) {
  for (unsigned threads : {1, 2, 31, 32, 33, 256, 1000, 1024}) {
    Array<unsigned> out(threads);
    ASSERT_EQ(LaunchOn(stream_, 1, threads, &Rotate<true>, out.at(), 3u), cudaSuccess);
    const std::vector<unsigned> values = out.Read(stream_.get());
    for (unsigned t = 0; t < threads; ++t) ASSERT_EQ(values[t], (t + 99) % threads) << threads;
  }
}

__global__ void ReadAnothers(unsigned* out, bool barrier, unsigned factor) {
  __shared__ unsigned values[256];
  values[threadIdx.x] = factor * threadIdx.x;
  if (barrier) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 33) % blockDim.x];
}

TEST_F(ExecutionTest, AMissingBarrierGivesOtherValuesFromOneLaunchToTheNext) {
  for (const bool barrier : {false, true}) {
    std::vector<unsigned> results[2];
    for (std::vector<unsigned>& result : results) {
      const Array<unsigned> out(256);
      // Twice what makes shared memory the same for both, so that they go different ways.
      for (unsigned factor : {0, 0, 1}) {
        ASSERT_EQ(LaunchOn(stream_, 1, 256, &ReadAnothers, out.at(), barrier, factor), cudaSuccess);
      }
      result = out.Read(stream_.get());
    }
    EXPECT_EQ(results[0] == results[1], barrier);
  }
}

__global__ void ReadTheBlockBefore(unsigned* out) { out[blockIdx.x + 1] = out[blockIdx.x] + 1; }

TEST_F(ExecutionTest, BlocksThatRelyOnEarlierOnesFindThatTheyHaveNotRun) {
  Array<unsigned> out(9);
  cudaMemsetAsync(out.at(), 0, out.bytes(), stream_.get());
  ASSERT_EQ(LaunchOn(stream_, 8, 1, &ReadTheBlockBefore, out.at()), cudaSuccess);
  EXPECT_EQ(out.Read(stream_.get()), (std::vector<unsigned>{0, 1, 1, 1, 1, 1, 1, 1, 1}));
}

constexpr unsigned kExchanges = 9;
__global__ void ExchangeInWarps(unsigned* out) {
  constexpr unsigned kAll = 0xffffffff;
  const unsigned t = threadIdx.x, value = t * t;
  const unsigned results[kExchanges] = {
      __shfl_sync(kAll, value, 7),
      __shfl_xor_sync(kAll, value, 5),
      __shfl_up_sync(kAll, value, 3),
      __shfl_down_sync(kAll, value, 3),
      __ballot_sync(kAll, t % 3 == 0),
      __any_sync(kAll, t == 40) ? 1u : 0u,
      __all_sync(kAll, t < 64) ? 1u : 0u,
      __reduce_add_sync(kAll, value),
      __float_as_uint(__shfl_xor_sync(kAll, 0.5f * static_cast<float>(t), 1)),
  };
  for (unsigned j = 0; j < kExchanges; ++j) out[t * kExchanges + j] = results[j];
}

TEST_F(ExecutionTest, LanesOfAWarpSeeEachOthersWords) {
  const unsigned threads = 96;
  for (int direction = 0; direction < 2; ++direction) {
    Array<unsigned> out(threads * kExchanges);
    ASSERT_EQ(LaunchOn(stream_, 1, threads, &ExchangeInWarps, out.at()), cudaSuccess);
    const std::vector<unsigned> results = out.Read(stream_.get());
    for (unsigned t = 0; t < threads; ++t) {
      const unsigned lane = t % 32, first = t - lane;
      const auto value_of = [&](unsigned of) { return (first + of) * (first + of); };
      unsigned votes = 0, sum = 0;
      for (unsigned l = 0; l < 32; ++l) {
        votes |= (first + l) % 3 == 0 ? 1u << l : 0;
        sum += value_of(l);
      }
      const std::vector<unsigned> expected = {
          value_of(7),
          value_of(lane ^ 5),
          value_of(lane < 3 ? lane : lane - 3),
          value_of(lane > 28 ? lane : lane + 3),
          votes,
          first == 32 ? 1u : 0u,
          first < 64 ? 1u : 0u,
          sum,
          std::bit_cast<unsigned>(0.5f * static_cast<float>(t ^ 1)),
      };
      const auto* const mine = results.data() + t * kExchanges;
      ASSERT_EQ(std::vector(mine, mine + kExchanges), expected) << t;
    }
  }
}

__global__ void WaitApart(unsigned* out) {
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  out[threadIdx.x] = 1;
}

TEST_F(ExecutionTest, ThreadsThatWaitForEachOtherForEverAreAnErrorThatStays) {
  Array<unsigned> out(64);
  ASSERT_EQ(LaunchOn(stream_, 1, 64, &WaitApart, out.at()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaErrorLaunchFailure);
  EXPECT_EQ(LaunchOn(stream_, 1, 64, &WaitApart, out.at()), cudaErrorLaunchFailure);
  cudaStreamSynchronize(stream_.get());

  Configure({});
  ASSERT_EQ(LaunchOn(stream_, 1, 64, &Rotate<true>, out.at(), 1u), cudaSuccess);
  EXPECT_EQ(out.Read(stream_.get())[0], 33u);
}

__global__ void LeaveEarly(unsigned* out) {
  if (threadIdx.x % 2 == 1) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST_F(ExecutionTest, ThreadsThatHaveEndedAreNotWaitedFor) {
  Array<unsigned> out(64);
  ASSERT_EQ(LaunchOn(stream_, 1, 64, &LeaveEarly, out.at()), cudaSuccess);
  const std::vector<unsigned> values = out.Read(stream_.get());
  for (unsigned t = 0; t < 64; t += 2) EXPECT_EQ(values[t], 1u);
}

__global__ void Tally(unsigned* sum, unsigned* least, unsigned* most) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, i);
  atomicMin(least, i + 5);
  atomicMax(most, i + 5);
}

TEST_F(ExecutionTest, AtomicsOfAllThreadsAddUp) {
  Array<unsigned> words(3);
  cudaMemsetAsync(words.at(), 0, words.bytes(), stream_.get());
  cudaMemsetAsync(words.at() + 1, 0xff, 4, stream_.get());
  ASSERT_EQ(LaunchOn(stream_, 7, 100, &Tally, words.at(), words.at() + 1, words.at() + 2),
            cudaSuccess);
  EXPECT_EQ(words.Read(stream_.get()), (std::vector<unsigned>{700 * 699 / 2, 5, 704}));
}

struct Padded {
  unsigned* out;
  unsigned value;  // followed by four bytes of unspecified content
};
#if __has_builtin(__builtin_clear_padding)
__global__ void StoreOne(Padded padded) { *padded.out = padded.value; }

TEST_F(ExecutionTest, PaddingOfAnArgumentIsNoAddress) {
  Array<unsigned> out(1);
  uint64_t freed = 0;
  {
    const Array<unsigned> gone(1);
    freed = reinterpret_cast<uint64_t>(gone.at());
  }
  Padded padded;
  std::memcpy(reinterpret_cast<std::byte*>(&padded) + 8, &freed, sizeof freed);
  padded.out = out.at();
  ASSERT_EQ(LaunchOn(stream_, 1, 1, &StoreOne, padded), cudaSuccess);
  EXPECT_EQ(out.Read(stream_.get())[0], static_cast<unsigned>(freed));
  EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
}
#endif

TEST_F(ExecutionTest, GridsThatNoDeviceTakesAreRefusedAndNothingElse) {
  Array<unsigned> out(64);
  for (const auto& [blocks, threads] : {std::pair(0, 64), {1, 0}, {1, 1025}}) {
    EXPECT_EQ(LaunchOn(stream_, blocks, threads, &Rotate<true>, out.at(), 1u),
              cudaErrorInvalidValue);
  }
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(LaunchOn(stream_, 1, 64, &Rotate<true>, out.at(), 1u), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
}

}  // namespace
}  // namespace fake_cuda
