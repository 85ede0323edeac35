#ifndef STRATA_COMMON_CONTROL_SEND_TRACE_H_
#define STRATA_COMMON_CONTROL_SEND_TRACE_H_

#include <cstdint>
#include <map>

#include "common/control/session.h"
#include "common/os/limits.h"
#include "proto/processes.pb.h"

namespace strata::control {

// Sends a daemon's traces. If much already waits for the coordinator, events are counted instead of
// sent: traces must not end a session. One owner.
class TraceSender {
 public:
  // The end of a job's trace is always sent.
  void Send(proto::TraceBatch batch, Session* session);

 private:
  // Per job whose trace has not ended: events that were dropped since its last batch.
  std::map<uint32_t, uint64_t> left_out_;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_SEND_TRACE_H_
