#ifndef STRATA_COMMON_CONTROL_RESOURCES_H_
#define STRATA_COMMON_CONTROL_RESOURCES_H_

#include <cstdint>
#include <string>

#include "common/control/session.h"
#include "common/limits/limits.h"
#include "proto/control.pb.h"

namespace strata::control {

// What a heartbeat or a status says of a daemon's limits. Names that end in "bytes" are shown with
// units; those that begin with "largest" are sizes, of which a cluster has the largest and not the
// sum. A limit of 0 is none.
template <typename Message>
void AddResource(const std::string& name, uint64_t used, uint64_t limit, Message* message) {
  proto::Resource* resource = message->add_resources();
  resource->set_name(name);
  resource->set_used(used);
  resource->set_limit(limit);
}

// A count of 0 is left out.
template <typename Message>
void AddRefusal(const std::string& cause, uint64_t count, Message* message) {
  if (count == 0) return;
  proto::Refusal* refusal = message->add_refusals();
  refusal->set_cause(cause);
  refusal->set_count(count);
}

template <typename Message>
void AddSessionResources(const Session::Use& use, Message* message) {
  AddResource("largest message bytes", use.message_bytes_max, kControlMessageBytesMax, message);
  AddResource("queued bytes", use.bytes, 2 * kQueuedBytesMax, message);
}

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_RESOURCES_H_
