#ifndef STRATA_COMMON_PROCESS_ENVIRONMENT_H_
#define STRATA_COMMON_PROCESS_ENVIRONMENT_H_

#include <map>
#include <string>

namespace strata {

// Variables by name.
using Environment = std::map<std::string, std::string>;

// Returns a copy of this process's variables. Components are handed what they may look at: what
// other programs have agreed on (AWS_...), and of Strata's own only where a user's keys are and
// whether daemons may be debugged; nothing else is set there.
// Threads: any, while none changes them.
Environment OwnEnvironment();

// Returns a variable; empty: it is not set, or empty.
std::string Variable(const Environment& environment, const std::string& name);

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_ENVIRONMENT_H_
