#include "kernels/cpu/dispatch.h"
#include "kernels/kernels.h"

namespace strata::kernels {
namespace cpu {

Kernels MakeTable() {
  return {.name = "cpu",
          .sum = Sum,
          .sum_far = SumFar,
          .optimize = Optimize,
          .compensate = Compensate,
          .all_finite = AllFinite,
          .codec = {Float16Codec(), BFloat16Codec(), Int8Codec(), OneBitCodec(), Sparse()}};
}

}  // namespace cpu

const Kernels& Cpu() {
  static const Kernels kernels = cpu::MakeTable();
  return kernels;
}

}  // namespace strata::kernels
