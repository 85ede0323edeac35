#include "common/transport/endpoint.h"

namespace strata::transport {

Refusals RefusalsOf(const EndpointUse& use) {
  Refusals refusals;
  if (use.refused > 0) refusals["over the limit of connections"] = use.refused;
  if (use.silent > 0) refusals["connection without a message"] = use.silent;
  if (use.late > 0) refusals["no HELLO in time"] = use.late;
  if (use.endless > 0) refusals["message without end"] = use.endless;
  if (use.unsealed > 0) refusals["frame without a seal"] = use.unsealed;
  if (use.broken_seals > 0) refusals["broken seal"] = use.broken_seals;
  if (use.wrong_secrets > 0) refusals["wrong secret of a job"] = use.wrong_secrets;
  return refusals;
}

}  // namespace strata::transport
