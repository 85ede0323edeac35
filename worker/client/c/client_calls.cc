#include "worker/client/c/client_calls.h"

namespace strata::client {

std::string& ErrorText() {
  thread_local std::string text;
  return text;
}

namespace {

strata_code CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return STRATA_OK;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return STRATA_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return STRATA_FAILED_PRECONDITION;
    case absl::StatusCode::kNotFound:
      return STRATA_NOT_FOUND;
    case absl::StatusCode::kResourceExhausted:
      return STRATA_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kUnavailable:
      return STRATA_STOPPED;
    case absl::StatusCode::kCancelled:
      return STRATA_INTERRUPTED;
    case absl::StatusCode::kOutOfRange:
      return STRATA_NO_MORE_STEPS;
    default:
      return STRATA_INTERNAL;
  }
}

}  // namespace

strata_code Take(const absl::Status& status) {
  if (!status.ok()) ErrorText() = std::string(status.message());
  return CodeOf(status.code());
}

}  // namespace strata::client
