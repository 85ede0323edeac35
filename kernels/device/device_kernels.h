#ifndef STRATA_KERNELS_DEVICE_DEVICE_KERNELS_H_
#define STRATA_KERNELS_DEVICE_DEVICE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/job/optimizer.h"
#include "kernels/codec_kernels.h"
#include "kernels/device/device.h"
#include "kernels/kernels.h"

namespace strata::device {

// With more inputs the caller makes several sums.
inline constexpr size_t kSumInputsMax = 128;

// The result of kernels' checks: a word on the device, which they only ever make worse. Fill it
// with kGood before, and copy it to the host after.
using Verdict = uint32_t;
inline constexpr uint8_t kGoodByte = 0xff;
inline constexpr Verdict kGood = 0xffffffff;
inline constexpr Verdict kBad = 0;  // something is not finite, or cannot be encoded

// A payload with a code for every element, on the device. Payloads start at multiples of 16 bytes;
// other buffers, as everywhere, at multiples of 4.
struct DeviceDenseCodec {
  absl::Status (*encode)(Stream& stream, const float* x, kernels::Feedback feedback, float* state,
                         size_t n, std::byte* payload, Verdict* verdict);
  // Sets the verdict to the index of the first block that does not decode to finite values, if that
  // is less than its value.
  absl::Status (*check)(Stream& stream, const std::byte* payload, size_t n, Verdict* verdict);
  absl::Status (*decode)(Stream& stream, const std::byte* payload, const float* base, float* out,
                         size_t n);
};

// Like kernels::SparseCodec, with counts in device memory. `count` is set, not added to. Calls on
// one stream share work space of the stream's.
struct DeviceSparseCodec {
  absl::Status (*accumulate)(Stream& stream, const float* x,
                             const kernels::Accumulators& accumulators, uint32_t threshold,
                             const kernels::Candidates& to, size_t n, uint32_t* count);
  absl::Status (*select)(Stream& stream, const float* p, uint32_t threshold,
                         const kernels::Candidates& to, size_t n, uint32_t* count);
  absl::Status (*sample)(Stream& stream, const float* x, const kernels::Accumulators& accumulators,
                         uint32_t* bits, size_t n);
  absl::Status (*count)(Stream& stream, const uint32_t* bits, size_t n, uint32_t threshold,
                        uint32_t* count);
  // `to` is not `bits`.
  absl::Status (*between)(Stream& stream, const uint32_t* bits, size_t n, uint32_t low,
                          uint32_t high, uint32_t* to, uint32_t* count);
  // Copies those of `from` that reach the threshold to other memory.
  absl::Status (*keep)(Stream& stream, const kernels::Candidates& from, size_t n,
                       uint32_t threshold, const kernels::Candidates& to, uint32_t* count);
  // kBad if `count` indices do not ascend strictly or one is not below n.
  absl::Status (*indices_ascend)(Stream& stream, const std::byte* indices, size_t count, size_t n,
                                 Verdict* verdict);
  // out[indices[j]] = base + value, on top of the content of `out`.
  absl::Status (*add)(Stream& stream, const std::byte* indices, const std::byte* values,
                      size_t count, float* out);
  // A step of numerics::Encoder as a whole: makes p, writes the payload of the k largest |p|, of
  // equal ones those of lowest index, or of all that are not zero, and takes them from state and
  // momentum. 1 <= k; `payload`, at a multiple of 4, has room for 4 + 8 k bytes. kBad if one of
  // them is not finite. For kResidual alone.
  absl::Status (*encode_largest)(Stream& stream, const float* x,
                                 const kernels::Accumulators& accumulators, size_t n, uint32_t k,
                                 std::byte* payload, Verdict* verdict);
};

// The functions of one kind of device: like kernels::Kernels, with the same bits, but with device
// memory, in a stream, and with verdicts instead of return values. `stream` belongs to the device
// that holds the memory, or can access it. Errors: those of Stream; InvalidArgument (too many
// inputs).
struct DeviceKernels {
  // `out` may be one of the inputs. kBad if an element of `out` is not finite.
  absl::Status (*sum)(Stream& stream, absl::Span<const float* const> inputs, float* out, size_t n,
                      Verdict* verdict);
  absl::Status (*optimize)(Stream& stream, const OptimizerParams& params,
                           const kernels::OptimizerStep& step, const float* gradient_sum,
                           const float* w_in, float* w_out, float* state0, float* state1, size_t n);
  absl::Status (*compensate)(Stream& stream, const DelayCompensation& how, float scale,
                             const float* gradient_sum, const float* w, const float* w_base,
                             float* mean_square, float* out, size_t n);
  absl::Status (*check_finite)(Stream& stream, const float* x, size_t n, Verdict* verdict);

  DeviceDenseCodec float16, bfloat16, int8, one_bit;
  DeviceSparseCodec sparse;
};

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_DEVICE_KERNELS_H_
