#ifndef STRATA_COMMON_CONTROL_OUTBOX_H_
#define STRATA_COMMON_CONTROL_OUTBOX_H_

#include <cstddef>
#include <deque>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::control {

// What a daemon says to the coordinator, in order: what waits to be sent, and what was sent so
// lately that it may be lost should the line break. A pure state machine. One owner.
//
// Bounded: at most kQueuedMessagesMax and kQueuedBytesMax wait for the first time, and the newest
// of what was sent, up to as much, are kept to be said again.
class Outbox {
 public:
  // False, and the message is dropped: more than fits waits.
  [[nodiscard]] bool Add(proto::DaemonMessage message);
  // The next one to be sent; null: none.
  const proto::DaemonMessage* Next() const;
  // It was sent. REQUIRES: there is one.
  void MarkSent(absl::Time now);
  // The line has ended, which may have been noticed late: what was sent in the last seconds waits
  // again, before the rest. Answers to what the coordinator asked on that line are dropped: it asks
  // anew, and would take them for answers to that.
  void OnBroken(absl::Time now);

  bool empty() const { return waiting_.empty(); }
  // How many messages wait, and their bytes.
  size_t messages() const { return waiting_.size(); }
  size_t bytes() const { return repeated_bytes_ + fresh_bytes_; }
  // Bytes of the largest message so far.
  size_t message_bytes_max() const { return message_bytes_max_; }

 private:
  struct Sent {
    absl::Time at;
    proto::DaemonMessage message;
  };

  void DropAnswers();

  std::deque<proto::DaemonMessage> waiting_;
  size_t repeated_ = 0;  // so many of waiting_, from the front, have been sent before
  size_t repeated_bytes_ = 0, fresh_bytes_ = 0;
  std::deque<Sent> sent_;
  size_t sent_bytes_ = 0;
  size_t message_bytes_max_ = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_OUTBOX_H_
