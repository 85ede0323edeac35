#ifndef STRATA_WORKER_CLIENT_C_WRITE_GUARD_H_
#define STRATA_WORKER_CLIENT_C_WRITE_GUARD_H_

#include <cstddef>
#include <string>
#include <vector>

namespace strata::client {

// Memory that the process may read and not write, with a name for what it holds.
struct GuardedRange {
  const void* begin = nullptr;
  size_t bytes = 0;
  std::string name;
};

// Makes a write to one of the ranges end the process with a line on stderr that names it, in place
// of a bare SIGSEGV. Other faults go to the handler that was there before. Replaces the ranges of
// the call before; empty: none. Threads: one; faults may happen on any.
void GuardWrites(std::vector<GuardedRange> ranges);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_WRITE_GUARD_H_
