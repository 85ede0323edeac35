#include "common/require.h"

#include <cstdio>
#include <cstdlib>

namespace strata {

void RequirementFailed(const char* condition, const char* file, int line) {
  // Not the log: it may be what is broken, and its lines may be switched off.
  std::fprintf(stderr, "%s:%d: requirement failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace strata
