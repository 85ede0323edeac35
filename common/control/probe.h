#ifndef STRATA_COMMON_CONTROL_PROBE_H_
#define STRATA_COMMON_CONTROL_PROBE_H_

#include <string>

namespace strata::control {

// Why no channel to "HOST:PORT" comes up, as far as one plain connection can tell: "connection
// refused", "unknown host", ...; of several addresses, why not to each. Takes a second at most for
// each, and what resolving the name takes. `insecure`: the channel was to be without keys.
std::string WhyUnreachable(const std::string& coordinator, bool insecure);
// The same where a plain connection is already there.
std::string WhyNoHandshake(bool insecure);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_PROBE_H_
