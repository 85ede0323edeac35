// The kernels of sparse payloads that write elements by ascending index.
#include "kernels/cuda/codec/codecs.h"
#include "kernels/cuda/codec/sparse.cuh"

namespace strata::cuda {

using kernels::Accumulators;
using kernels::Candidates;

namespace {

// Writes the elements of a band by ascending index. Every warp of the grid has a range of its own.
// A first kernel counts what each will write; the second kernel adds up the counts of all earlier
// ranges to find its position.

// The stream's work space: the count of each block, and the position of each warp within it.
struct Counts {
  uint32_t *of_block, *before_warp;
};
static_assert(sizeof(uint32_t) * kBlocksPerMultiprocessor * (1 + kWarps) <=
              kWorkSpaceBytesPerMultiprocessor);

template <unsigned kWidth, typename Source>
__global__ void __launch_bounds__(kThreads)
    CountKernel(Source source, size_t n, Band band, Counts counts) {
  const Range range = RangeOfWarp<kWidth>(n);
  unsigned mine = 0;
  size_t i = range.begin + threadIdx.x % kLanes * kWidth;
  for (; i < range.end; i += kLanes * kWidth) {
    uint32_t bits[kWidth];
    BitsAt(source, i, n, bits);
    for (unsigned j = 0; j < kWidth; ++j) mine += band.Has(bits[j]) ? 1 : 0;
  }
  const WarpSums sums = SumOverBlock(mine);
  if (threadIdx.x == 0) counts.of_block[blockIdx.x] = sums.of_block;
  if (threadIdx.x % kLanes == 0) counts.before_warp[FirstItem() / kLanes] = sums.before_warp;
}

// Destinations of elements: Put takes the position, the index in the source, and the bits.
struct ToCandidates {
  Candidates to;
  __device__ __forceinline__ void Put(unsigned at, size_t i, uint32_t bits) const {
    to.indices[at] = static_cast<uint32_t>(i);
    to.bits[at] = bits;
  }
};
struct ToRenamed {
  const uint32_t* indices;
  Candidates to;
  __device__ __forceinline__ void Put(unsigned at, size_t i, uint32_t bits) const {
    to.indices[at] = indices[i];
    to.bits[at] = bits;
  }
};
struct ToBits {
  uint32_t* to;
  __device__ __forceinline__ void Put(unsigned at, size_t, uint32_t bits) const { to[at] = bits; }
};

template <unsigned kWidth, typename Source, typename Sink>
__global__ void __launch_bounds__(kThreads)
    WriteKernel(Source source, size_t n, Band band, Counts counts, Sink sink, uint32_t* count) {
  unsigned before = 0;
  for (unsigned b = threadIdx.x; b < blockIdx.x; b += kThreads) before += counts.of_block[b];
  before = SumOverBlock(before).of_block;
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    *count = before + counts.of_block[blockIdx.x];
  }
  const Range range = RangeOfWarp<kWidth>(n);
  const unsigned lane = threadIdx.x % kLanes;
  unsigned at = before + counts.before_warp[FirstItem() / kLanes];
  for (size_t i = range.begin; i < range.end; i += kLanes * kWidth) {
    const size_t first = i + lane * kWidth;
    uint32_t bits[kWidth];
    BitsAt(source, first, n, bits);
    unsigned of_lanes_before = 0, of_warp = 0;
    for (unsigned j = 0; j < kWidth; ++j) {
      const unsigned has = __ballot_sync(kAllLanes, band.Has(bits[j]));
      of_lanes_before += __popc(has & ((1u << lane) - 1));
      of_warp += __popc(has);
    }
    unsigned mine = at + of_lanes_before;
    for (unsigned j = 0; j < kWidth; ++j) {
      if (band.Has(bits[j])) sink.Put(mine++, first + j, bits[j]);
    }
    at += of_warp;
  }
}

template <unsigned kWidth, typename First, typename Second, typename Sink>
absl::Status WriteInOrder(CudaStream& stream, const First& first, const Second& second, size_t n,
                          Band band, const Sink& sink, uint32_t* count) {
  const absl::StatusOr<uint32_t*> work_space = stream.WorkSpace();
  if (!work_space.ok()) return work_space.status();
  const dim3 blocks = BlocksFor(stream, (n + kWidth - 1) / kWidth);
  uint32_t* const words = *work_space + kChoiceWorkSpaceBytes / sizeof(uint32_t);
  const Counts counts = {words, words + blocks.x};
  const absl::Status status = stream.Launch("count what is to be written", blocks, ThreadsOfBlock(),
                                            &CountKernel<kWidth, First>, first, n, band, counts);
  if (!status.ok()) return status;
  return stream.Launch("write in order", blocks, ThreadsOfBlock(),
                       &WriteKernel<kWidth, Second, Sink>, second, n, band, counts, sink, count);
}

// `first` is counted, `second` is then written: the same elements.
template <typename First, typename Second, typename Sink>
absl::Status WriteInOrder(device::Stream& stream, const First& first, const Second& second,
                          bool aligned, size_t n, Band band, const Sink& sink, uint32_t* count) {
  return aligned ? WriteInOrder<4>(Cast(stream), first, second, n, band, sink, count)
                 : WriteInOrder<1>(Cast(stream), first, second, n, band, sink, count);
}

// For elements that the first kernel leaves unchanged.
template <typename Source, typename Sink>
absl::Status WriteInOrder(device::Stream& stream, const Source& source, bool aligned, size_t n,
                          Band band, const Sink& sink, uint32_t* count) {
  return WriteInOrder(stream, source, source, aligned, n, band, sink, count);
}

}  // namespace

absl::Status Accumulate(device::Stream& stream, const float* x, const Accumulators& accumulators,
                        uint32_t threshold, const Candidates& to, size_t n, uint32_t* count) {
  const bool aligned = IsAligned(x) && IsAligned(accumulators);
  const Band band = From(threshold);
  const ToCandidates sink = {to};
  return WithSource<true>(x, accumulators, [&](auto source) {
    if constexpr (std::is_same_v<decltype(source), Difference>) {
      return WriteInOrder(stream, source, aligned, n, band, sink, count);
    } else {
      return WriteInOrder(stream, source, Stored{source.state}, aligned, n, band, sink, count);
    }
  });
}

absl::Status Select(device::Stream& stream, const float* p, uint32_t threshold,
                    const Candidates& to, size_t n, uint32_t* count) {
  return WriteInOrder(stream, Stored{p}, IsAligned(p), n, From(threshold), ToCandidates{to}, count);
}

absl::Status SelectBetween(device::Stream& stream, const uint32_t* bits, size_t n, uint32_t low,
                           uint32_t high, uint32_t* to, uint32_t* count) {
  return WriteInOrder(stream, BitsOf(bits), IsAligned(bits), n, Between(low, high), ToBits{to},
                      count);
}

absl::Status Keep(device::Stream& stream, const Candidates& from, size_t n, uint32_t threshold,
                  const Candidates& to, uint32_t* count) {
  return WriteInOrder(stream, BitsOf(from.bits), IsAligned(from.bits), n, From(threshold),
                      ToRenamed{from.indices, to}, count);
}

}  // namespace strata::cuda
