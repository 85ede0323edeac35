#ifndef STRATA_COMPRESSION_JOB_COMPRESSION_H_
#define STRATA_COMPRESSION_JOB_COMPRESSION_H_

#include "compression/encoder.h"
#include "proto/job.pb.h"

namespace strata::kernels {

// How the encoding of a job whose defaults are filled in compresses.
CompressionOptions MakeCompression(const proto::Encoding& encoding, Feedback feedback);

// The codec of the payloads of an encoding.
wire::Codec WireCodec(const proto::Encoding& encoding);

// DGC's density once `epochs` epochs have been trained, which may be a fraction.
double DgcDensityAt(const proto::Encoding& encoding, double epochs);

}  // namespace strata::kernels

#endif  // STRATA_COMPRESSION_JOB_COMPRESSION_H_
