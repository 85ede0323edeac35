#ifndef STRATA_COMMON_DIVERGED_H_
#define STRATA_COMMON_DIVERGED_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace strata {

// Training has diverged: a loss, gradient or measured value is NaN or infinite. The same job would
// fail again, other than after a lost process. Errors say so by a payload, not by their text.
inline constexpr char kDivergedPayload[] = "strata/diverged";

// Returns InvalidArgument that says so. `message` names the value and the step.
inline absl::Status DivergedError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kDivergedPayload, absl::Cord("1"));
  return status;
}

inline bool HasDiverged(const absl::Status& status) {
  return status.GetPayload(kDivergedPayload).has_value();
}

// Returns the error with words before its message. It keeps its code, and that training diverged.
inline absl::Status Prefixed(absl::string_view words, const absl::Status& status) {
  absl::Status prefixed(status.code(), absl::StrCat(words, status.message()));
  if (HasDiverged(status)) prefixed.SetPayload(kDivergedPayload, absl::Cord("1"));
  return prefixed;
}

}  // namespace strata

#endif  // STRATA_COMMON_DIVERGED_H_
