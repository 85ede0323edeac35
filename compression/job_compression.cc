#include "compression/job_compression.h"

namespace strata::kernels {
namespace {

constexpr int kWarmUpStages = 4;  // of DgcDensity, before the last one

Compression MakeCompression(proto::Encoding::Codec codec) {
  switch (codec) {
    case proto::Encoding::FP16:
      return Compression::kFloat16;
    case proto::Encoding::BF16:
      return Compression::kBFloat16;
    case proto::Encoding::INT8:
      return Compression::kInt8;
    case proto::Encoding::ONE_BIT:
      return Compression::kOneBit;
    case proto::Encoding::TOP_K:
      return Compression::kTopK;
    case proto::Encoding::DGC:
      return Compression::kDgc;
    default:
      return Compression::kNone;
  }
}

}  // namespace

CompressionOptions MakeCompression(const proto::Encoding& encoding, Feedback feedback) {
  CompressionOptions options;
  options.compression = MakeCompression(encoding.codec());
  options.feedback = feedback;
  if (encoding.has_density()) options.density = encoding.density();
  if (encoding.has_momentum()) options.momentum = encoding.momentum();
  return options;
}

wire::Codec WireCodec(const proto::Encoding& encoding) {
  return WireCodec(MakeCompression(encoding.codec()));
}

double DgcDensityAt(const proto::Encoding& encoding, double epochs) {
  const double stages = epochs * kWarmUpStages / encoding.warmup_epochs();
  if (!(stages < kWarmUpStages)) return encoding.density();
  return DgcDensity(static_cast<int>(stages), encoding.density());
}

}  // namespace strata::kernels
