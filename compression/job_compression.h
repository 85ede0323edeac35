#ifndef STRATA_COMPRESSION_JOB_COMPRESSION_H_
#define STRATA_COMPRESSION_JOB_COMPRESSION_H_

#include "compression/encoder.h"
#include "proto/job.pb.h"

namespace strata::kernels {

// How a job's encoding compresses. REQUIRES: the job's defaults are filled in.
CompressionOptions CompressionOf(const proto::Encoding& encoding, Feedback feedback);

// Of the payloads of an encoding.
wire::Codec CodecOf(const proto::Encoding& encoding);

// DGC's density once `epochs` epochs have been trained, which may be a fraction.
double DgcDensityAt(const proto::Encoding& encoding, double epochs);

}  // namespace strata::kernels

#endif  // STRATA_COMPRESSION_JOB_COMPRESSION_H_
