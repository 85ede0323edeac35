#include "compression/job_compression.h"

#include "gtest/gtest.h"

namespace strata::kernels {
namespace {

proto::Encoding Dgc(float density, float warmup_epochs) {
  proto::Encoding encoding;
  encoding.set_codec(proto::Encoding::DGC);
  encoding.set_density(density);
  encoding.set_momentum(0.75f);
  encoding.set_warmup_epochs(warmup_epochs);
  return encoding;
}

TEST(JobCompression, TakesOverWhatTheEncodingSays) {
  const CompressionOptions options = MakeCompression(Dgc(0.125f, 4), Feedback::kResidual);
  EXPECT_EQ(options.compression, Compression::kDgc);
  EXPECT_EQ(options.density, 0.125);
  EXPECT_EQ(options.momentum, 0.75f);
  EXPECT_EQ(options.feedback, Feedback::kResidual);
  EXPECT_EQ(MakeCompression(proto::Encoding(), Feedback::kFollow).compression, Compression::kNone);
}

TEST(JobCompression, KnowsThePayloadOfEachCodec) {
  const wire::Codec payloads[] = {
      wire::Codec::kNone,   wire::Codec::kFloat16, wire::Codec::kBFloat16, wire::Codec::kInt8,
      wire::Codec::kOneBit, wire::Codec::kSparse,  wire::Codec::kSparse};
  for (int codec = 0; codec <= proto::Encoding::Codec_MAX; ++codec) {
    proto::Encoding encoding;
    encoding.set_codec(static_cast<proto::Encoding::Codec>(codec));
    EXPECT_EQ(WireCodec(encoding), payloads[codec]) << codec;
  }
}

TEST(JobCompression, DgcComesDownByAQuarterOfItsWarmUp) {
  const proto::Encoding dgc = Dgc(0.001f, 8);
  EXPECT_EQ(DgcDensityAt(dgc, 0), 0.25);
  EXPECT_EQ(DgcDensityAt(dgc, 1.99), 0.25);
  EXPECT_EQ(DgcDensityAt(dgc, 2), 0.0625);
  EXPECT_EQ(DgcDensityAt(dgc, 4), 0.016);
  EXPECT_EQ(DgcDensityAt(dgc, 7.99), 0.004);
  EXPECT_EQ(DgcDensityAt(dgc, 8), 0.001f);
  EXPECT_EQ(DgcDensityAt(dgc, 100), 0.001f);
}

TEST(JobCompression, DgcIsNeverSparserThanAskedForAndMayHaveNoWarmUp) {
  EXPECT_EQ(DgcDensityAt(Dgc(0.125f, 4), 0), 0.25);
  EXPECT_EQ(DgcDensityAt(Dgc(0.125f, 4), 1), 0.125);
  EXPECT_EQ(DgcDensityAt(Dgc(0.125f, 0), 0), 0.125);
}

}  // namespace
}  // namespace strata::kernels
