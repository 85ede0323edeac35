#ifndef STRATA_TESTS_SIM_CHECK_PROFILE_H_
#define STRATA_TESTS_SIM_CHECK_PROFILE_H_

#include <string>
#include <vector>

#include "tests/sim/check/scenario.h"

namespace strata::sim {

// A kind of scenario under a name, so that what a test has run can be run again by hand.
struct Profile {
  const char* name;
  const char* what;  // one line
  Scenario::Limits limits;
};

const std::vector<Profile>& Profiles();
// Null: there is none of this name.
const Profile* FindProfile(const std::string& name);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_PROFILE_H_
