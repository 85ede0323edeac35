#include "common/process/undumpable.h"

#include <sys/prctl.h>

#include "common/require.h"

namespace strata {

void MakeUndumpable(const Environment& environment) {
  if (!Variable(environment, kDumpable).empty()) return;
  STRATA_REQUIRE(prctl(PR_SET_DUMPABLE, 0) == 0);  // no state of a process makes it fail
}

}  // namespace strata
