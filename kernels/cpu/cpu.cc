#include "kernels/cpu/dispatch.h"
#include "kernels/kernels.h"

namespace strata::kernels {

const Kernels& Cpu() {
  static const Kernels kernels = {
      .name = "cpu", .sum = cpu::Sum, .optimize = cpu::Optimize, .all_finite = cpu::AllFinite};
  return kernels;
}

}  // namespace strata::kernels
