#ifndef STRATA_COMMON_OS_ENVIRONMENT_H_
#define STRATA_COMMON_OS_ENVIRONMENT_H_

#include <map>
#include <string>

namespace strata {

// Variables by name.
using Environment = std::map<std::string, std::string>;

// Returns a copy of this process's variables. Components get only variables that they may read:
// conventions shared with other programs (AWS_...), and of Strata's own only the location of a
// user's keys and whether daemons may be debugged; nothing else is configured there. Threads: any,
// while none changes them.
Environment OwnEnvironment();

// Returns a variable; empty: unset, or empty.
std::string Variable(const Environment& environment, const std::string& name);

// A variable for debugging daemons: if it is set, MakeUndumpable does nothing.
inline constexpr char kDumpable[] = "STRATA_DUMPABLE";

// Keeps other processes of this user from tracing this one, reading its memory, or opening more of
// /proc/PID than all users see (stat, status, cmdline). It leaves no core file, either. Root is not
// affected. The next exec ends it, so programs that this process starts are ordinary ones. Call it
// first: a process that got access earlier keeps it.
void MakeUndumpable(const Environment& environment);

}  // namespace strata

#endif  // STRATA_COMMON_OS_ENVIRONMENT_H_
