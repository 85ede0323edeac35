#include "compare/campaign/divergence.h"

#include "absl/strings/match.h"

namespace strata::compare {

bool HasDiverged(const std::string& failure) {
  for (const char* words :
       {"loss is NaN at step ", "loss is infinite at step ", " is not finite at step ",
        "NaN or infinity", " is NaN as fp32", " is infinite as fp32"}) {
    if (absl::StrContains(failure, words)) return true;
  }
  return false;
}

}  // namespace strata::compare
