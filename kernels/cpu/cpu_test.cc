#include "kernels/conformance.h"

namespace strata::kernels {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, KernelsConformance, testing::Values(&Cpu),
                         [](const auto& info) { return info.param().name; });

}  // namespace
}  // namespace strata::kernels
