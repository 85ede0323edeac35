#ifndef STRATA_COMMON_CONTROL_DIAL_H_
#define STRATA_COMMON_CONTROL_DIAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::control {

// Connects to "HOST:PORT". The socket does not block, and gives up when the other side has not
// acknowledged what was sent for `silence`: TCP alone repeats at growing intervals, so that after a
// break of 3 s it may stay silent for another 3 s, which is longer than a daemon may be.
//
// Blocks up to `timeout` for each of the host's addresses, and for the name service. Errors:
// Unavailable with the reason.
absl::StatusOr<UniqueFd> DialTcp(const std::string& address, absl::Duration timeout,
                                 absl::Duration silence);

// Connects to "HOST:PORT" or "unix:/PATH". Errors: those of DialTcp and DialUnix.
absl::StatusOr<UniqueFd> Dial(const std::string& address, absl::Duration timeout,
                              absl::Duration silence);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_DIAL_H_
