#ifndef STRATA_KERNELS_TESTING_CONFORMANCE_H_
#define STRATA_KERNELS_TESTING_CONFORMANCE_H_

#include <functional>

#include "gtest/gtest.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// What every device's kernels must do: the reference's bits at any size and alignment, and nothing
// written outside the buffers. A device's test instantiates it:
//   INSTANTIATE_TEST_SUITE_P(Cpu, KernelsConformance, testing::Values(&Cpu));
class KernelsConformance : public testing::TestWithParam<std::function<const Kernels&()>> {
 protected:
  const Kernels& kernels() const { return GetParam()(); }
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_TESTING_CONFORMANCE_H_
