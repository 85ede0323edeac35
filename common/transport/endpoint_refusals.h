#ifndef STRATA_COMMON_TRANSPORT_ENDPOINT_REFUSALS_H_
#define STRATA_COMMON_TRANSPORT_ENDPOINT_REFUSALS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/transport/endpoint.h"

namespace strata::transport {

// What peers sent and somebody did not take, by cause in the words that users see. The causes are a
// fixed few.
using Refusals = std::map<std::string, uint64_t>;

// Returns what an endpoint itself has refused. What did not happen is left out.
Refusals RefusalsOf(const EndpointUse& use);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ENDPOINT_REFUSALS_H_
