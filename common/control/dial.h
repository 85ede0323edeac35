#ifndef STRATA_COMMON_CONTROL_DIAL_H_
#define STRATA_COMMON_CONTROL_DIAL_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/unique_fd.h"

namespace strata::control {

// Connects to "HOST:PORT". The socket is non-blocking, and fails when the peer has not acknowledged
// sent data for `silence`: TCP alone retransmits at growing intervals, so after a break of 3 s it
// may stay silent for another 3 s, which is longer than a daemon may be silent.
//
// Blocks up to `timeout` for each of the host's addresses, and for the name service. Errors:
// Unavailable with the reason.
absl::StatusOr<UniqueFd> DialTcp(const std::string& address, absl::Duration timeout,
                                 absl::Duration silence);

// Connects to "HOST:PORT" or "unix:/PATH". Errors: those of DialTcp and DialUnix.
absl::StatusOr<UniqueFd> Dial(const std::string& address, absl::Duration timeout,
                              absl::Duration silence);

// Returns why no channel to "HOST:PORT" comes up, as far as one plain connection can tell:
// "connection refused", "unknown host", ...; for several addresses, each one's reason. Takes at
// most a second for each, plus name resolution. `insecure`: the channel is without keys.
std::string WhyUnreachable(const std::string& coordinator, bool insecure);
// The same if a plain connection succeeds.
std::string WhyNoHandshake(bool insecure);
// Returns Unreachable (channel.h) for a call that has given up, with WhyUnreachable if `why` is
// empty.
absl::Status GaveUp(const std::string& coordinator, const Credentials& credentials,
                    absl::Duration tried_for, const std::string& why);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_DIAL_H_
