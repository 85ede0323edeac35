#ifndef STRATA_COMMON_CONTROL_OUTBOX_H_
#define STRATA_COMMON_CONTROL_OUTBOX_H_

#include <cstddef>
#include <deque>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::control {

// A daemon's messages to the coordinator, in order: unsent ones, and those sent so recently that a
// lost connection may have dropped them. A pure state machine with one owner.
//
// Bounded: at most kQueuedMessagesMax and kQueuedBytesMax wait to be sent the first time, and up to
// as many of the newest sent ones are kept for resending.
class Outbox {
 public:
  // Returns false and drops the message if the limits would be exceeded.
  [[nodiscard]] bool Add(proto::DaemonMessage message);
  // Returns the next message to send; null: none.
  const proto::DaemonMessage* Next() const;
  // Marks the next message as sent. REQUIRES: there is one.
  void MarkSent(absl::Time now);
  // The line has ended, perhaps some time ago: messages sent in the last seconds wait again, before
  // the rest. Answers to requests on that line are dropped: the coordinator asks again, and would
  // take them for answers to the new request.
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
  size_t repeated_ = 0;  // number of waiting_, from the front, that have been sent before
  size_t repeated_bytes_ = 0, fresh_bytes_ = 0;
  std::deque<Sent> sent_;
  size_t sent_bytes_ = 0;
  size_t message_bytes_max_ = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_OUTBOX_H_
