#include <bit>

#include "kernels/kernels.h"

namespace strata::kernels {

size_t SumTreeSplit(size_t count) { return std::bit_floor(count - 1); }

}  // namespace strata::kernels
