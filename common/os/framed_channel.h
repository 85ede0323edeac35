#ifndef STRATA_COMMON_OS_FRAMED_CHANNEL_H_
#define STRATA_COMMON_OS_FRAMED_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/os/limits.h"
#include "common/unique_fd.h"
#include "google/protobuf/message_lite.h"

namespace strata {

// Protobuf messages over a stream socket between processes on one host, each preceded by its length
// as a protobuf varint, at most kMessageBytesMax: the format of common/os/channel.h, for programs
// that block or send from several threads instead of running an event loop.
//
// Threads: Send from any thread, the receiving calls from one. Owns the descriptor.
class FramedChannel {
 public:
  static constexpr uint32_t kMessageBytesMax = kControlMessageBytesMax;

  // A stream socket; its blocking mode does not matter.
  explicit FramedChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // Blocks until the kernel has taken the message, at most `timeout`. Errors: InvalidArgument (too
  // large), Unavailable (the peer is gone), DeadlineExceeded (it does not read); after either of
  // the last two every later Send fails with Unavailable.
  absl::Status Send(const google::protobuf::MessageLite& message,
                    absl::Duration timeout = absl::Seconds(30));

  // Takes one message if a complete one is there; never blocks. Returns false if there is none.
  // Call it until it returns false before polling the descriptor again, because a read may receive
  // several messages. Errors, after which the channel is unusable: OutOfRange (the peer has
  // closed), DataLoss (closed inside a message, length over the limit, or not such a message).
  absl::StatusOr<bool> TryReceive(google::protobuf::MessageLite* message);

  // Blocks for one message. Errors: those of TryReceive, and DeadlineExceeded.
  absl::Status Receive(google::protobuf::MessageLite* message, absl::Duration timeout);

 private:
  absl::StatusOr<bool> ParseOne(google::protobuf::MessageLite* message);

  const UniqueFd fd_;
  // Received and unparsed, from consumed_ on.
  std::string input_;
  size_t consumed_ = 0;
  absl::Mutex send_mutex_;
  bool send_broken_ ABSL_GUARDED_BY(send_mutex_) = false;
};

}  // namespace strata

#endif  // STRATA_COMMON_OS_FRAMED_CHANNEL_H_
