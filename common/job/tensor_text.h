#ifndef STRATA_COMMON_JOB_TENSOR_TEXT_H_
#define STRATA_COMMON_JOB_TENSOR_TEXT_H_

#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/record.pb.h"

namespace strata {

// Returns what a program has registered a tensor as, all but its place: two that are not the same
// have other texts.
inline std::string TensorText(const proto::Segment& segment) {
  return absl::StrFormat("\"%s\" [%s] (lr x%g, decay x%g%s)", segment.name(),
                         absl::StrJoin(segment.shape(), ", "), segment.lr_multiplier(),
                         segment.decay_multiplier(), segment.averaged() ? ", averaged" : "");
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_TENSOR_TEXT_H_
