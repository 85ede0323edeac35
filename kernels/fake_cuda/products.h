#ifndef STRATA_KERNELS_FAKE_CUDA_PRODUCTS_H_
#define STRATA_KERNELS_FAKE_CUDA_PRODUCTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>

// Shared by the fake cuBLAS and cuDNN: values as numbers, with the precision loss of each format.
namespace fake_cuda {

inline float RoundTo(float value, unsigned bits_kept) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const unsigned lost = 23 - bits_kept;
  if ((bits & 0x7f800000) == 0x7f800000) return value;
  const uint32_t rounded = bits + (1u << (lost - 1)) - 1 + (bits >> lost & 1);
  return std::bit_cast<float>(rounded >> lost << lost);
}
inline float RoundToBFloat16(float value) { return RoundTo(value, 7); }
// Rounds fp32 inputs as tensor cores do.
inline float RoundToTensorFloat32(float value) { return RoundTo(value, 10); }

// An array of fp32 or bf16, at the address where this process has it.
struct Values {
  std::byte* at = nullptr;
  bool is_bfloat16 = false;
  bool rounds = false;  // fp32 to TF32 where it is read

  float Get(size_t i) const {
    if (is_bfloat16) {
      return std::bit_cast<float>(uint32_t{reinterpret_cast<const uint16_t*>(at)[i]} << 16);
    }
    const float value = reinterpret_cast<const float*>(at)[i];
    return rounds ? RoundToTensorFloat32(value) : value;
  }
  void Set(size_t i, double value) const {
    const float rounded = static_cast<float>(value);
    if (is_bfloat16) {
      const uint32_t bits = std::bit_cast<uint32_t>(RoundToBFloat16(rounded));
      reinterpret_cast<uint16_t*>(at)[i] = static_cast<uint16_t>(bits >> 16);
    } else {
      reinterpret_cast<float*>(at)[i] = rounded;
    }
  }
};

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_PRODUCTS_H_
