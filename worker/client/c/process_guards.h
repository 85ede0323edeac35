#ifndef STRATA_WORKER_CLIENT_C_PROCESS_GUARDS_H_
#define STRATA_WORKER_CLIENT_C_PROCESS_GUARDS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata::client {

// Has `call` called when this process exits with status 0, by exit() or at main's end; null: none.
// Where it fails, a line on stderr says why, and the process ends with status 1. A process that
// forked from this one calls nothing. Replaces what the call before set. Threads: one.
void AtGoodExit(std::function<absl::Status()> call);

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

#endif  // STRATA_WORKER_CLIENT_C_PROCESS_GUARDS_H_
