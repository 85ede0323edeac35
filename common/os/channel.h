#ifndef STRATA_COMMON_OS_CHANNEL_H_
#define STRATA_COMMON_OS_CHANNEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/limits.h"
#include "google/protobuf/message_lite.h"

namespace strata {

// Messages over a stream socket, each preceded by its length as a protobuf varint. Non-blocking:
// what does not fit into the socket waits here until Flush.
//
// Threads: one. Owns the descriptor.
class Channel {
 public:
  // Larger messages are refused when received.
  static constexpr size_t kMessageBytesMax = kControlMessageBytesMax;

  // If more than `queued_bytes_max` would wait, the peer has not read for long: the channel is
  // closed then, and Receive reports it.
  explicit Channel(int fd, size_t queued_bytes_max = kQueuedBytesMax);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const { return fd_; }

  void Send(const google::protobuf::MessageLite& message);
  // Whether anything waits to be sent: then watch for POLLOUT and call Flush.
  bool wants_flush() const { return !out_.empty(); }
  void Flush();

  // Returns all complete messages received, serialized. Errors: OutOfRange (the peer has closed;
  // earlier calls returned everything before), DataLoss (it has closed inside a message),
  // InvalidArgument (not a length, or one over the limit). Repeated calls return the same error.
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
