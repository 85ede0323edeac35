#ifndef STRATA_WORKER_CLIENT_C_GOOD_EXIT_H_
#define STRATA_WORKER_CLIENT_C_GOOD_EXIT_H_

#include <functional>

#include "absl/status/status.h"

namespace strata::client {

// Has `call` called when this process exits with status 0, by exit() or at main's end; null: none.
// Where it fails, a line on stderr says why, and the process ends with status 1. A process that
// forked from this one calls nothing. Replaces what the call before set. Threads: one.
void AtGoodExit(std::function<absl::Status()> call);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_GOOD_EXIT_H_
