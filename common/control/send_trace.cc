#include "common/control/send_trace.h"

#include <utility>

#include "common/job/trace_log.h"

namespace strata::control {
namespace {

void SendBatch(proto::TraceBatch batch, Session* session) {
  proto::DaemonMessage message;
  *message.mutable_trace() = std::move(batch);
  session->Send(std::move(message));
}

}  // namespace

void TraceSender::Send(proto::TraceBatch batch, Session* session) {
  const uint32_t job = batch.job_id();
  const bool is_end = IsTraceEnd(batch);
  const Session::Use use = session->use();
  if (!is_end && (use.bytes > kTraceQueuedBytesMax || use.messages > kTraceQueuedMessagesMax)) {
    left_out_[job] += batch.events_size() + batch.dropped();
    return;
  }
  const auto found = left_out_.find(job);
  if (found == left_out_.end()) return SendBatch(std::move(batch), session);
  proto::TraceBatch lacking;
  proto::TraceBatch& says = is_end ? lacking : batch;
  says.set_dropped(says.dropped() + found->second);
  left_out_.erase(found);
  if (is_end) {
    lacking.set_job_id(job);
    lacking.set_process("daemon");
    SendBatch(std::move(lacking), session);
  }
  SendBatch(std::move(batch), session);
}

}  // namespace strata::control
