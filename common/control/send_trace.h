#ifndef STRATA_COMMON_CONTROL_SEND_TRACE_H_
#define STRATA_COMMON_CONTROL_SEND_TRACE_H_

#include <utility>

#include "common/control/session.h"
#include "common/limits/trace_limits.h"
#include "proto/control.pb.h"

namespace strata::control {

// Where much waits for the coordinator already, only how many events the batch had is said:
// traces may not end a session.
inline void SendTrace(proto::TraceBatch batch, Session* session) {
  if (session->use().bytes > kTraceQueuedBytesMax) {
    batch.set_dropped(batch.dropped() + batch.events_size());
    batch.clear_events();
  }
  proto::DaemonMessage message;
  *message.mutable_trace() = std::move(batch);
  session->Send(std::move(message));
}

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_SEND_TRACE_H_
