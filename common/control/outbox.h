#ifndef STRATA_COMMON_CONTROL_OUTBOX_H_
#define STRATA_COMMON_CONTROL_OUTBOX_H_

#include <cstddef>
#include <deque>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::control {

// What a daemon says to the coordinator, in order: what waits to be sent, and what was sent so
// lately that it may be lost should the line break. A pure state machine. One owner.
class Outbox {
 public:
  // False, and the message is dropped: more than fits waits (kQueuedMessagesMax, kQueuedBytesMax).
  bool Add(proto::DaemonMessage message);
  // The next one to be sent; null: none.
  const proto::DaemonMessage* Next() const;
  // It was sent. REQUIRES: there is one.
  void MarkSent(absl::Time now);
  // The line has ended, which may have been noticed late: what was sent in the last seconds waits
  // again, before the rest.
  void OnBroken(absl::Time now);

  bool empty() const { return waiting_.empty(); }
  size_t messages() const { return waiting_.size(); }
  size_t bytes() const { return waiting_bytes_; }
  // Of the largest message so far.
  size_t message_bytes_max() const { return message_bytes_max_; }

 private:
  struct Sent {
    absl::Time at;
    proto::DaemonMessage message;
  };

  std::deque<proto::DaemonMessage> waiting_;
  std::deque<Sent> sent_;
  size_t waiting_bytes_ = 0;
  size_t message_bytes_max_ = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_OUTBOX_H_
