#ifndef STRATA_COMMON_JOB_NUMBER_CHECK_H_
#define STRATA_COMMON_JOB_NUMBER_CHECK_H_

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata {

// The default of Job.rank_log_bytes, and its limits.
inline constexpr uint64_t kRankLogBytes = uint64_t{256} << 20;
inline constexpr uint64_t kRankLogBytesMin = uint64_t{64} << 10;
inline constexpr uint64_t kRankLogBytesMax = uint64_t{1} << 40;

// Building blocks of a job's checks. Errors: InvalidArgument, one line that begins with the field.

inline absl::Status Refuse(const std::string& line) { return absl::InvalidArgumentError(line); }

inline absl::Status InRange(const char* field, uint64_t value, uint64_t min, uint64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %d is not in %d to %d", field, value, min, max));
}

// min <= value, and value < below.
inline absl::Status InHalfOpenRange(const char* field, double value, double min, double below) {
  if (value >= min && value < below) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %g is not a number >= %g and < %g", field, value, min, below));
}

inline absl::Status NotNegative(const char* field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %g is not a finite number >= 0", field, value));
}

inline absl::Status Positive(const char* field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %g is not a finite number > 0", field, value));
}

// The first error, or OK.
inline absl::Status All(std::initializer_list<absl::Status> results) {
  for (const absl::Status& status : results) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace strata

#endif  // STRATA_COMMON_JOB_NUMBER_CHECK_H_
