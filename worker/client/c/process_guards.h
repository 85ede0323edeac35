#ifndef STRATA_WORKER_CLIENT_C_PROCESS_GUARDS_H_
#define STRATA_WORKER_CLIENT_C_PROCESS_GUARDS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata::client {

// Calls `call` when this process exits with status 0, by exit() or at main's end; null: nothing. If
// it fails, a line on stderr gives the reason, and the process exits with status 1. A forked child
// calls nothing. Replaces the previous `call`. Threads: one.
void AtGoodExit(std::function<absl::Status()> call);

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

#endif  // STRATA_WORKER_CLIENT_C_PROCESS_GUARDS_H_
