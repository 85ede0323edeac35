#ifndef STRATA_WORKER_CLIENT_C_GOOD_EXIT_H_
#define STRATA_WORKER_CLIENT_C_GOOD_EXIT_H_

#include <functional>

#include "absl/status/status.h"

namespace strata::client {

// Calls `call` when this process exits with status 0, by exit() or at main's end; null: nothing. If
// it fails, a line on stderr gives the reason, and the process exits with status 1. A forked child
// calls nothing. Replaces the previous `call`. Threads: one.
void AtGoodExit(std::function<absl::Status()> call);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_GOOD_EXIT_H_
