#ifndef STRATA_COMPRESSION_DENSE_CODEC_H_
#define STRATA_COMPRESSION_DENSE_CODEC_H_

#include "common/wire/payload.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// The functions of a payload's format; null for kNone and kSparse.
inline const DenseCodec* FindDenseCodec(const Kernels& kernels, wire::Codec codec) {
  switch (codec) {
    case wire::Codec::kFloat16:
      return &kernels.codec.float16;
    case wire::Codec::kBFloat16:
      return &kernels.codec.bfloat16;
    case wire::Codec::kInt8:
      return &kernels.codec.int8;
    case wire::Codec::kOneBit:
      return &kernels.codec.one_bit;
    case wire::Codec::kNone:
    case wire::Codec::kSparse:
      break;
  }
  return nullptr;
}

}  // namespace strata::kernels

#endif  // STRATA_COMPRESSION_DENSE_CODEC_H_
