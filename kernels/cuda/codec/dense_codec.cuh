#ifndef STRATA_KERNELS_CUDA_DENSE_CODEC_CUH_
#define STRATA_KERNELS_CUDA_DENSE_CODEC_CUH_

#include <type_traits>

#include "kernels/cuda/codec/codec_block.cuh"

// The kernels of payloads with a code for every element, for formats that define
//   kScaled, kBits       whether a block has a scale; bits of an element's code
//   Decode               codes from one element on, and the scale -> an item
//   ScaleIsGood          whether an untrusted scale's bits are valid
//   CodesAreGood         whether all codes in a word are valid and, to be encoded by the block's
//   largest magnitude,
//   Fit                  makes the scale from its bits; false if there is none
//   Encode               p -> its code, and the value that it decodes to
namespace strata::cuda {

// Codes begin at any multiple of 4.
__device__ __forceinline__ bool IsAtEight(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % 8 == 0;
}
__device__ __forceinline__ uint2 ReadPair(const std::byte* at) {
  if (IsAtEight(at)) return *reinterpret_cast<const uint2*>(at);
  const auto* words = reinterpret_cast<const unsigned*>(at);
  return make_uint2(words[0], words[1]);
}
__device__ __forceinline__ void WritePair(uint2 pair, std::byte* at) {
  if (IsAtEight(at)) {
    // By name: nvcc would make two words of both branches.
    __stcg(reinterpret_cast<uint2*>(at), pair);
  } else {
    reinterpret_cast<unsigned*>(at)[0] = pair.x;
    reinterpret_cast<unsigned*>(at)[1] = pair.y;
  }
}

// For registers r to r + 3.
template <unsigned kBits, Deal kDeal>
__device__ __forceinline__ void WriteCodes(const unsigned (&c)[4], unsigned lane, unsigned r,
                                           const CodecBlock& block) {
  static_assert(kBits == 8 || kBits == 16);
  if constexpr (kDeal == Deal::kFours) {
    std::byte* const at = block.codes + ElementOf<kDeal>(lane, r) * (kBits / 8);
    if constexpr (kBits == 16) {
      WritePair(make_uint2(c[0] | c[1] << 16, c[2] | c[3] << 16), at);
    } else {
      *reinterpret_cast<unsigned*>(at) = c[0] | c[1] << 8 | c[2] << 16 | c[3] << 24;
    }
  } else {
    using Code = std::conditional_t<kBits == 16, uint16_t, uint8_t>;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned i = ElementOf<kDeal>(lane, r + j);
      if (i < block.count) reinterpret_cast<Code*>(block.codes)[i] = static_cast<Code>(c[j]);
    }
  }
}

// All lanes of a warp call it.
template <class Format, Feedback kFeedback, Deal kDeal>
__device__ __forceinline__ void EncodeBlock(const CodecBlock& block, unsigned lane) {
  float p[kPerLane], state[kPerLane];
  ReadBlock<kDeal>(block.x, block.count, lane, p);
  if constexpr (kFeedback != Feedback::kNone) {
    ReadBlock<kDeal>(block.state, block.count, lane, state);
  }
  unsigned largest = 0;
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    if constexpr (kFeedback != Feedback::kNone) p[r] = ToSend<kFeedback>(p[r], state[r]);
    const unsigned magnitude = __float_as_uint(p[r]) & 0x7fffffff;
    largest = largest < magnitude ? magnitude : largest;
  }
  // NaN and infinity are above all others.
  Format format;
  if (!format.Fit(__reduce_max_sync(kAllLanes, largest))) {
    if (lane == 0) Worsen(block.verdict, device::kBad);
    return;
  }
  if (lane == 0) *block.scale = format.scale;
#pragma unroll
  for (unsigned r = 0; r < kPerLane; r += 4) {
    unsigned codes[4];
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      float decoded;
      codes[j] = format.Encode(p[r + j], decoded);
      if constexpr (kFeedback != Feedback::kNone) {
        state[r + j] = Kept<kFeedback>(p[r + j], state[r + j], decoded);
      }
    }
    WriteCodes<Format::kBits, kDeal>(codes, lane, r, block);
  }
  if constexpr (kFeedback != Feedback::kNone) {
    WriteBlock<kDeal>(state, block.count, lane, block.state);
  }
}

template <class Format, Feedback kFeedback>
__global__ void __launch_bounds__(kEncodeThreads)
    EncodeKernel(const float* x, float* state, size_t n, std::byte* payload, size_t blocks,
                 bool aligned, device::Verdict* verdict) {
  const size_t nth = FirstItem() / kLanes;
  if (nth >= blocks) return;
  const unsigned lane = threadIdx.x % kLanes;
  const auto block = BlockOf<Format::kBits>(nth, blocks, x, state, n, payload, verdict);
  if (aligned && block.count == kCodecBlock) {
    EncodeBlock<Format, kFeedback, Deal::kFours>(block, lane);
  } else {
    EncodeBlock<Format, kFeedback, Deal::kRows>(block, lane);
  }
}

template <class Format>
__device__ __forceinline__ void CheckWord(unsigned word, size_t i, size_t scales,
                                          device::Verdict* verdict) {
  constexpr size_t kWordsOfBlock = kCodecBlock * Format::kBits / 32;
  if (Format::kScaled && i < scales) {
    if (!Format::ScaleIsGood(word)) Worsen(verdict, static_cast<device::Verdict>(i));
  } else if (!Format::CodesAreGood(word)) {
    Worsen(verdict, static_cast<device::Verdict>((i - scales) / kWordsOfBlock));
  }
}

// The payload in words, of which the first `scales` are.
template <class Format>
__global__ void __launch_bounds__(kThreads)
    CheckPayloadKernel(const std::byte* payload, size_t scales, size_t bytes,
                       device::Verdict* verdict) {
  const size_t items = bytes / sizeof(uint4);
  for (size_t i = FirstItem(); i < items; i += ItemStride()) {
    const uint4 words = reinterpret_cast<const uint4*>(payload)[i];
    CheckWord<Format>(words.x, 4 * i, scales, verdict);
    CheckWord<Format>(words.y, 4 * i + 1, scales, verdict);
    CheckWord<Format>(words.z, 4 * i + 2, scales, verdict);
    CheckWord<Format>(words.w, 4 * i + 3, scales, verdict);
  }
  // The last word is padded with zeros, which are valid codes.
  for (size_t i = 4 * items + FirstItem(); 4 * i < bytes; i += ItemStride()) {
    unsigned word = 0;
    for (unsigned j = 0; j < 4 && 4 * i + j < bytes; ++j) {
      word |= static_cast<unsigned>(payload[4 * i + j]) << (8 * j);
    }
    CheckWord<Format>(word, i, scales, verdict);
  }
}

// Items that a thread decodes at once, a block's size apart: on an H200 signs, which take almost no
// reads, are written 24 % faster this way, and uncached reads leave room in the cache for them.
constexpr unsigned kDecodedAtOnce = 4;

template <class Format, bool kAdd, typename T>
__device__ __forceinline__ T DecodeItem(const float* scales, const std::byte* codes,
                                        const float* base, size_t at) {
  T item;
  Format::Decode(codes, at, Format::kScaled ? scales[at / kCodecBlock] : 1.0f, item);
  if constexpr (kAdd) {
    const T onto = Read<T>(base, at);
#pragma unroll
    for (unsigned j = 0; j < kElements<T>; ++j)
      Element(item, j) = Element(onto, j) + Element(item, j);
  }
  return item;
}

template <class Format, bool kAdd, typename T>
__global__ void __launch_bounds__(kThreads)
    DecodeKernel(const float* scales, const std::byte* codes, const float* base, float* out,
                 size_t n) {
  const size_t items = n / kElements<T>;
  const size_t first = static_cast<size_t>(blockIdx.x) * (kDecodedAtOnce * kThreads) + threadIdx.x;
  T decoded[kDecodedAtOnce];
#pragma unroll
  for (unsigned r = 0; r < kDecodedAtOnce; ++r) {
    const size_t i = first + r * kThreads;
    if (i < items) {
      decoded[r] = DecodeItem<Format, kAdd, T>(scales, codes, base, i * kElements<T>);
    }
  }
#pragma unroll
  for (unsigned r = 0; r < kDecodedAtOnce; ++r) {
    const size_t i = first + r * kThreads;
    if (i < items) __stcs(reinterpret_cast<T*>(out) + i, decoded[r]);
  }
  const size_t at = items * kElements<T> + first;  // less than an item is left
  if (blockIdx.x == 0 && at < n) {
    out[at] = DecodeItem<Format, kAdd, float>(scales, codes, base, at);
  }
}

// Calls launch(feedback) with a constant.
template <typename Launch>
absl::Status WithFeedback(Feedback feedback, Launch launch) {
  switch (feedback) {
    case Feedback::kNone:
      return launch(std::integral_constant<Feedback, Feedback::kNone>());
    case Feedback::kResidual:
      return launch(std::integral_constant<Feedback, Feedback::kResidual>());
    case Feedback::kFollow:
      return launch(std::integral_constant<Feedback, Feedback::kFollow>());
  }
  return absl::InvalidArgumentError("no such feedback");
}

template <class Format>
absl::Status EncodeByLargest(device::Stream& stream, const float* x, Feedback feedback,
                             float* state, size_t n, std::byte* payload, device::Verdict* verdict) {
  if (n == 0) return absl::OkStatus();
  if (feedback == Feedback::kNone) state = nullptr;
  const bool aligned = IsAligned(x) && IsAligned(state);
  return WithFeedback(feedback, [&](auto kind) {
    return Cast(stream).Launch("encode", BlocksOfEncoder(n), ThreadsOfEncoder(),
                               &EncodeKernel<Format, decltype(kind)::value>, x, state, n, payload,
                               wire::CodecBlocks(n), aligned, verdict);
  });
}

template <class Format>
absl::Status CheckPayload(device::Stream& stream, const std::byte* payload, size_t n,
                          device::Verdict* verdict) {
  if (n == 0) return absl::OkStatus();
  const size_t scales = Format::kScaled ? wire::CodecBlocks(n) : 0;
  const size_t bytes = 4 * scales + n * Format::kBits / 8;
  return Cast(stream).Launch("check", BlocksForAll(bytes / sizeof(uint4)), ThreadsOfBlock(),
                             &CheckPayloadKernel<Format>, payload, scales, bytes, verdict);
}

template <class Format>
absl::Status Decode(device::Stream& stream, const std::byte* payload, const float* base, float* out,
                    size_t n) {
  if (n == 0) return absl::OkStatus();
  const auto* scales = reinterpret_cast<const float*>(payload);
  const std::byte* codes = payload + (Format::kScaled ? 4 * wire::CodecBlocks(n) : 0);
  const bool aligned = IsAligned(base) && IsAligned(out);
  const auto launch = [&](auto kernel, size_t items) {
    return Cast(stream).Launch("decode",
                               BlocksForAll((items + kDecodedAtOnce - 1) / kDecodedAtOnce),
                               ThreadsOfBlock(), kernel, scales, codes, base, out, n);
  };
  if (base == nullptr) {
    return aligned ? launch(&DecodeKernel<Format, false, float4>, n / 4)
                   : launch(&DecodeKernel<Format, false, float>, n);
  }
  return aligned ? launch(&DecodeKernel<Format, true, float4>, n / 4)
                 : launch(&DecodeKernel<Format, true, float>, n);
}

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_DENSE_CODEC_CUH_
