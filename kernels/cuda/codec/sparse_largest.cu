// Encodes the elements of largest magnitude; only the payload leaves the device.
#include "kernels/cuda/codec/codecs.h"
#include "kernels/cuda/codec/sparse.cuh"

namespace strata::cuda {

using kernels::Accumulators;

namespace {

// The k-th largest magnitude is found digit by digit from the highest on: one pass over p counts
// the next digits of the magnitudes that begin with the digits found so far, then one block picks
// the digit at which k is reached. No count is sent to the host.
struct Digit {
  unsigned shift, bits;
};
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};
constexpr unsigned kBins = 1 << 11;
constexpr unsigned kBinsPerThread = kBins / kThreads;

// The state of the selection, in the stream's work space.
struct Choice {
  uint32_t found;   // the digits so far; finally the k-th largest magnitude
  uint32_t wanted;  // how many of the largest with this prefix are needed
  uint32_t count;   // k, or the number of non-zero elements if that is less
};
struct ChoiceSpace {
  Choice choice;
  uint32_t bins[kBins];  // all zero between passes
};
static_assert(sizeof(ChoiceSpace) <= kChoiceWorkSpaceBytes);

// Zeros are never chosen: no digits count them.
__device__ __forceinline__ bool IsChosenFrom(uint32_t magnitude, const Choice& choice,
                                             unsigned found_from) {
  return magnitude > 0 && (found_from > 30 || magnitude >> found_from == choice.found);
}

template <unsigned kWidth, typename Source>
__global__ void __launch_bounds__(kThreads)
    DigitKernel(Source source, size_t n, Digit digit, ChoiceSpace* space) {
  __shared__ uint32_t bins[kBins];
  for (unsigned b = threadIdx.x; b < kBins; b += kThreads) bins[b] = 0;
  __syncthreads();
  const Choice choice = space->choice;
  for (size_t i = FirstItem() * kWidth; i < n; i += ItemStride() * kWidth) {
    uint32_t bits[kWidth];
    BitsAt(source, i, n, bits);
    for (unsigned j = 0; j < kWidth; ++j) {
      const uint32_t magnitude = bits[j] & kMagnitude;
      if (!IsChosenFrom(magnitude, choice, digit.shift + digit.bits)) continue;
      atomicAdd(&bins[magnitude >> digit.shift & ((1u << digit.bits) - 1)], 1u);
    }
  }
  __syncthreads();
  for (unsigned b = threadIdx.x; b < kBins; b += kThreads) {
    if (bins[b] > 0) atomicAdd(&space->bins[b], bins[b]);
  }
}

// One block finds the digit at which the largest `wanted` end, and how many have it. `k` is that of
// the first digit, otherwise 0.
__global__ void __launch_bounds__(kThreads)
    PickKernel(Digit digit, uint32_t k, ChoiceSpace* space) {
  __shared__ uint32_t of_threads[kThreads];
  // From the highest bin on.
  const unsigned first = kBins - 1 - threadIdx.x * kBinsPerThread;
  uint32_t mine = 0;
  for (unsigned j = 0; j < kBinsPerThread; ++j) mine += space->bins[first - j];
  of_threads[threadIdx.x] = mine;
  __syncthreads();
  uint32_t before = 0, all = 0;
  for (unsigned t = 0; t < kThreads; ++t) {
    if (t == threadIdx.x) before = all;
    all += of_threads[t];
  }
  Choice choice = space->choice;
  if (k > 0) {
    choice.found = 0;
    choice.wanted = choice.count = k < all ? k : all;
  }
  __syncthreads();  // all have read the choice
  if (all == 0 && threadIdx.x == 0) space->choice = {kMagnitude, 0, 0};
  for (unsigned j = 0; j < kBinsPerThread; ++j) {
    const uint32_t here = space->bins[first - j];
    space->bins[first - j] = 0;
    if (before < choice.wanted && choice.wanted <= before + here) {
      space->choice = {choice.found << digit.bits | (first - j), choice.wanted - before,
                       choice.count};
    }
    before += here;
  }
}

// Counts of elements above the k-th largest magnitude, and equal to it, by block and by warp.
struct Tally {
  uint32_t *of_block, *before_warp;
};
struct Tallies {
  Tally above, equal;
};
constexpr size_t kTallyWords = 2 * (1 + kWarps);  // of a block
static_assert(sizeof(uint32_t) * kBlocksPerMultiprocessor * kTallyWords <=
              kWorkSpaceBytesPerMultiprocessor);

template <unsigned kWhich>
__device__ __forceinline__ void Note(unsigned mine, const Tally& tally) {
  const WarpSums sums = SumOverBlock<kWhich>(mine);
  if (threadIdx.x == 0) tally.of_block[blockIdx.x] = sums.of_block;
  if (threadIdx.x % kLanes == 0) tally.before_warp[FirstItem() / kLanes] = sums.before_warp;
}

template <unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    TallyLargestKernel(Stored source, size_t n, const ChoiceSpace* space, Tallies tallies) {
  const uint32_t cut = space->choice.found;
  const Range range = RangeOfWarp<kWidth>(n);
  unsigned above = 0, equal = 0;
  for (size_t i = range.begin + threadIdx.x % kLanes * kWidth; i < range.end;
       i += kLanes * kWidth) {
    uint32_t bits[kWidth];
    BitsAt(source, i, n, bits);
    for (unsigned j = 0; j < kWidth; ++j) {
      above += (bits[j] & kMagnitude) > cut ? 1 : 0;
      equal += (bits[j] & kMagnitude) == cut ? 1 : 0;
    }
  }
  Note<0>(above, tallies.above);
  Note<1>(equal, tallies.equal);
}

template <unsigned kWhich>
__device__ __forceinline__ unsigned BeforeWarp(const Tally& tally) {
  unsigned before = 0;
  for (unsigned b = threadIdx.x; b < blockIdx.x; b += kThreads) before += tally.of_block[b];
  return SumOverBlock<kWhich>(before).of_block + tally.before_warp[FirstItem() / kLanes];
}

// Returns how many of a warp's elements come before the calling lane's, and their total.
template <unsigned kWidth>
__device__ __forceinline__ void CountInWarp(const bool (&has)[kWidth], unsigned& before,
                                            unsigned& all) {
  const unsigned lanes_before = (1u << threadIdx.x % kLanes) - 1;
  before = all = 0;
  for (unsigned j = 0; j < kWidth; ++j) {
    const unsigned have = __ballot_sync(kAllLanes, has[j]);
    before += __popc(have & lanes_before);
    all += __popc(have);
  }
}

// Writes the payload, and subtracts it from the state (and the momentum, if any).
template <unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    WriteLargestKernel(float* state, float* momentum, size_t n, const ChoiceSpace* space,
                       Tallies tallies, uint32_t* payload, device::Verdict* verdict) {
  const Choice choice = space->choice;
  uint32_t* const indices = payload + 1;
  uint32_t* const values = indices + choice.count;
  if (blockIdx.x == 0 && threadIdx.x == 0) *payload = choice.count;
  unsigned above_before = BeforeWarp<0>(tallies.above);
  unsigned equal_before = BeforeWarp<1>(tallies.equal);
  const Range range = RangeOfWarp<kWidth>(n);
  bool good = true;
  for (size_t i = range.begin; i < range.end; i += kLanes * kWidth) {
    const size_t first = i + threadIdx.x % kLanes * kWidth;
    uint32_t bits[kWidth];
    BitsAt(Stored{state}, first, n, bits);
    bool above[kWidth], equal[kWidth];
    for (unsigned j = 0; j < kWidth; ++j) {
      above[j] = (bits[j] & kMagnitude) > choice.found;
      equal[j] = (bits[j] & kMagnitude) == choice.found;
    }
    unsigned of_above, of_equal, all_above, all_equal;
    CountInWarp(above, of_above, all_above);
    CountInWarp(equal, of_equal, all_equal);
    of_above += above_before;
    of_equal += equal_before;
    for (unsigned j = 0; j < kWidth; ++j) {
      // Among equal ones, those of lowest index.
      if (above[j] || (equal[j] && of_equal < choice.wanted)) {
        const unsigned at = of_above + (of_equal < choice.wanted ? of_equal : choice.wanted);
        indices[at] = static_cast<uint32_t>(first + j);
        values[at] = bits[j];
        state[first + j] = 0;
        if (momentum != nullptr) momentum[first + j] = 0;
        good = good && IsFinite(__uint_as_float(bits[j]));
      }
      of_above += above[j] ? 1 : 0;
      of_equal += equal[j] ? 1 : 0;
    }
    above_before += all_above;
    equal_before += all_equal;
  }
  if (!good) Worsen(verdict, device::kBad);
}

template <unsigned kWidth, typename Source>
absl::Status Choose(CudaStream& to, Source source, const float* state, size_t n, uint32_t k,
                    ChoiceSpace* space) {
  absl::Status status = to.Fill(space, 0, sizeof *space);
  const dim3 blocks = BlocksFor(to, (n + kWidth - 1) / kWidth);
  dim3 one;
  one.x = 1;
  for (const Digit& digit : kDigits) {
    if (!status.ok()) return status;
    // The first pass makes p.
    const bool is_first = &digit == kDigits;
    status.Update(is_first
                      ? to.Launch("make and count digits", blocks, ThreadsOfBlock(),
                                  &DigitKernel<kWidth, Source>, source, n, digit, space)
                      : to.Launch("count digits", blocks, ThreadsOfBlock(),
                                  &DigitKernel<kWidth, Stored>, Stored{state}, n, digit, space));
    status.Update(to.Launch("pick a digit", one, ThreadsOfBlock(), &PickKernel, digit,
                            is_first ? k : 0, space));
  }
  return status;
}

template <unsigned kWidth>
absl::Status EncodeLargest(CudaStream& to, const float* x, const Accumulators& accumulators,
                           size_t n, uint32_t k, std::byte* payload, device::Verdict* verdict) {
  const absl::StatusOr<uint32_t*> work_space = to.WorkSpace();
  if (!work_space.ok()) return work_space.status();
  auto* const space = reinterpret_cast<ChoiceSpace*>(*work_space);
  float* const state = accumulators.state;
  absl::Status status = WithSource<true>(
      x, accumulators, [&](auto source) { return Choose<kWidth>(to, source, state, n, k, space); });
  if (!status.ok()) return status;
  const dim3 blocks = BlocksFor(to, (n + kWidth - 1) / kWidth);
  uint32_t* const words = *work_space + kChoiceWorkSpaceBytes / sizeof(uint32_t);
  uint32_t* const of_warps = words + 2 * blocks.x;
  const Tallies tallies = {{words, of_warps}, {words + blocks.x, of_warps + kWarps * blocks.x}};
  status.Update(to.Launch("count the largest", blocks, ThreadsOfBlock(),
                          &TallyLargestKernel<kWidth>, Stored{state}, n, space, tallies));
  if (!status.ok()) return status;
  return to.Launch("write the largest", blocks, ThreadsOfBlock(), &WriteLargestKernel<kWidth>,
                   state, accumulators.momentum, n, space, tallies,
                   reinterpret_cast<uint32_t*>(payload), verdict);
}

}  // namespace

absl::Status EncodeLargest(device::Stream& stream, const float* x, const Accumulators& accumulators,
                           size_t n, uint32_t k, std::byte* payload, device::Verdict* verdict) {
  return IsAligned(x) && IsAligned(accumulators)
             ? EncodeLargest<4>(Cast(stream), x, accumulators, n, k, payload, verdict)
             : EncodeLargest<1>(Cast(stream), x, accumulators, n, k, payload, verdict);
}

}  // namespace strata::cuda
