#ifndef STRATA_COMMON_JOB_ENCODING_H_
#define STRATA_COMMON_JOB_ENCODING_H_

#include <string>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata {

// Writes the defaults of a job's encodings into the fields that are absent.
void FillEncodings(proto::Job* job);

// Checks whether mode, exchange and optimizer can carry push and pull. Errors: InvalidArgument
// naming field, value and what is allowed. The job's defaults are filled in.
absl::Status CheckEncodings(const proto::Job& job);

// Returns whether values travel in a format other than fp32.
inline bool IsEncoded(const proto::Encoding& encoding) {
  return encoding.codec() != proto::Encoding::FP32;
}

// "fp32", "int8", "top-k 1 %", "DGC 0.1 %".
std::string EncodingName(const proto::Encoding& encoding);
// Returns the encodings of a job: "push fp16, pull int8"; empty if everything is fp32.
std::string EncodingsName(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_ENCODING_H_
