#ifndef STRATA_COMMON_CONTROL_PROBE_H_
#define STRATA_COMMON_CONTROL_PROBE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"

namespace strata::control {

// Why no channel to "HOST:PORT" comes up, as far as one plain connection can tell: "connection
// refused", "unknown host", ...; of several addresses, why not to each. Takes a second at most for
// each, and what resolving the name takes. `insecure`: the channel was to be without keys.
std::string WhyUnreachable(const std::string& coordinator, bool insecure);
// The same where a plain connection is already there.
std::string WhyNoHandshake(bool insecure);
// Unreachable (channel.h) for a call that has given up, with WhyUnreachable where `why` is empty.
absl::Status GaveUp(const std::string& coordinator, const Credentials& credentials,
                    absl::Duration tried_for, const std::string& why);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_PROBE_H_
