#ifndef STRATA_WORKER_CLIENT_C_WRITE_GUARD_H_
#define STRATA_WORKER_CLIENT_C_WRITE_GUARD_H_

#include <cstddef>
#include <string>
#include <vector>

namespace strata::client {

// Memory that the process may only read, with a name for its content.
struct GuardedRange {
  const void* begin = nullptr;
  size_t bytes = 0;
  std::string name;
};

// Makes a write to one of the ranges end the process with a line on stderr that names the range,
// instead of a bare SIGSEGV. Other faults go to the previous handler. Replaces the previous ranges;
// empty: none. Threads: one; faults may happen on any.
void GuardWrites(std::vector<GuardedRange> ranges);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_WRITE_GUARD_H_
