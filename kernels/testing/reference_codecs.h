#ifndef STRATA_KERNELS_TESTING_REFERENCE_CODECS_H_
#define STRATA_KERNELS_TESTING_REFERENCE_CODECS_H_

#include "kernels/codec_kernels.h"

// The codecs as plain loops, straight from the formats in common/wire/payload.h: what tests compare
// with, bit for bit. Compiled with -ffp-contract=off.
namespace strata::kernels::reference {

const CodecKernels& Codecs();

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_TESTING_REFERENCE_CODECS_H_
