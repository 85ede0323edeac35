#ifndef STRATA_TESTS_SIM_CHECK_PROFILE_H_
#define STRATA_TESTS_SIM_CHECK_PROFILE_H_

#include <string>
#include <vector>

#include "tests/sim/check/scenario.h"

namespace strata::sim {

// A named kind of scenario, so that a test's run can be repeated by hand.
struct Profile {
  const char* name;
  const char* what;  // one line
  Scenario::Limits limits;
};

const std::vector<Profile>& Profiles();
// Returns null if no profile has this name.
const Profile* FindProfile(const std::string& name);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_PROFILE_H_
