#ifndef STRATA_TESTS_SIM_SCENARIO_PROFILE_RINGS_H_
#define STRATA_TESTS_SIM_SCENARIO_PROFILE_RINGS_H_

#include "tests/sim/scenario/scenario.h"

namespace strata::sim {

// Most jobs all-reduce and go on without nodes that die, which they do at any moment, and while the
// others form a ring, too.
void MakeRingLosses(Scenario* scenario);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SCENARIO_PROFILE_RINGS_H_
