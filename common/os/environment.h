#ifndef STRATA_COMMON_OS_ENVIRONMENT_H_
#define STRATA_COMMON_OS_ENVIRONMENT_H_

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

// A variable for debugging daemons: if it is set, MakeUndumpable does nothing.
inline constexpr char kDumpable[] = "STRATA_DUMPABLE";

// Keeps other processes of this user from tracing this one, reading its memory, or opening more of
// /proc/PID than all users see (stat, status, cmdline). It leaves no core file either. Root is not
// affected. The next exec ends it, so programs that this process starts are like any others. Call
// it first: a process that was quicker keeps its access.
void MakeUndumpable(const Environment& environment);

}  // namespace strata

#endif  // STRATA_COMMON_OS_ENVIRONMENT_H_
