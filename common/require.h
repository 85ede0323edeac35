#ifndef STRATA_COMMON_REQUIRE_H_
#define STRATA_COMMON_REQUIRE_H_

// Checks a precondition (a `REQUIRES:` of a header) or an invariant of our own code, in every
// build. If it does not hold, the process writes one line with the condition and its place in the
// source, and aborts: code with a wrong state of its own must not continue to change weights.
//
// Errors that a peer, a file or a user can cause are not for this: they stay an absl::Status.
#define STRATA_REQUIRE(condition) \
  ((condition) ? static_cast<void>(0) : ::strata::RequirementFailed(#condition, __FILE__, __LINE__))

namespace strata {

// Writes "FILE:LINE: requirement failed: CONDITION" to stderr and aborts. Threads: any.
[[noreturn]] void RequirementFailed(const char* condition, const char* file, int line);

}  // namespace strata

#endif  // STRATA_COMMON_REQUIRE_H_
