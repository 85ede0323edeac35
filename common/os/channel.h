#ifndef STRATA_COMMON_OS_CHANNEL_H_
#define STRATA_COMMON_OS_CHANNEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/limits.h"
#include "google/protobuf/message_lite.h"

namespace strata {

// Messages over a stream socket, each after its length as a protobuf varint. Non-blocking: what
// does not fit into the socket waits here until Flush.
//
// Threads: one. Owns the descriptor.
class Channel {
 public:
  // A message of more bytes is refused when received.
  static constexpr size_t kMessageBytesMax = kControlMessageBytesMax;

  // When more than `queued_bytes_max` would wait, the other side has not read for long: the channel
  // is closed then, and Receive says so.
  explicit Channel(int fd, size_t queued_bytes_max = kQueuedBytesMax);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const { return fd_; }

  void Send(const google::protobuf::MessageLite& message);
  // True while something waits to be sent: then watch for POLLOUT and call Flush.
  bool wants_flush() const { return !out_.empty(); }
  void Flush();

  // All whole messages that have come, serialised. Errors: OutOfRange (the other side has closed;
  // what came before was returned by earlier calls), DataLoss (it has closed inside a message),
  // InvalidArgument (not a length, or one over the limit). The same again from then on.
  absl::StatusOr<std::vector<std::string>> Receive();

 private:
  int fd_;
  const size_t queued_bytes_max_;
  std::string in_;
  std::string out_;
  bool closed_ = false;
};

}  // namespace strata

#endif  // STRATA_COMMON_OS_CHANNEL_H_
