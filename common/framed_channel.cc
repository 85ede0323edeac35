#include "common/framed_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace strata {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kReadBytes = 65536;

void AppendLength(uint32_t length, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(length >> shift));
}

uint32_t ParseLength(const char* bytes) {
  uint32_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

// False: the deadline came first.
bool PollUntil(int fd, short events, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd item = {.fd = fd, .events = events, .revents = 0};
    const int timeout_ms = static_cast<int>(
        absl::ToInt64Milliseconds(std::min(left + absl::Milliseconds(1), absl::Hours(1))));
    if (poll(&item, 1, timeout_ms) > 0) return true;
  }
}

}  // namespace

absl::Status FramedChannel::Send(const google::protobuf::MessageLite& message,
                                 absl::Duration timeout) {
  const size_t size = message.ByteSizeLong();
  if (size > kMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s of %d bytes is over the channel's %d", message.GetTypeName(), size, kMessageBytesMax));
  }
  std::string output;
  output.reserve(kLengthBytes + size);
  AppendLength(static_cast<uint32_t>(size), &output);
  message.AppendToString(&output);

  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&send_mutex_);
  if (send_broken_) return absl::UnavailableError("the channel is broken");
  size_t sent = 0;
  while (sent < output.size()) {
    const ssize_t n =
        send(fd_.get(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += n;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (PollUntil(fd_.get(), POLLOUT, deadline)) continue;
      send_broken_ = true;
      return absl::DeadlineExceededError(absl::StrFormat("%s not taken by the other side within %s",
                                                         message.GetTypeName(),
                                                         absl::FormatDuration(timeout)));
    } else if (errno != EINTR) {
      send_broken_ = true;
      return absl::UnavailableError(
          absl::StrFormat("%s not sent: %s", message.GetTypeName(), strerror(errno)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FramedChannel::ParseOne(google::protobuf::MessageLite* message) {
  const size_t there = input_.size() - consumed_;
  if (there < kLengthBytes) return false;
  const uint32_t length = ParseLength(input_.data() + consumed_);
  if (length > kMessageBytesMax) {
    return absl::DataLossError(
        absl::StrFormat("message of %d bytes is over the channel's %d", length, kMessageBytesMax));
  }
  if (there < kLengthBytes + length) return false;
  if (!message->ParseFromArray(input_.data() + consumed_ + kLengthBytes,
                               static_cast<int>(length))) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes are not a %s", length, message->GetTypeName()));
  }
  consumed_ += kLengthBytes + length;
  if (consumed_ == input_.size()) {
    input_.clear();
    consumed_ = 0;
  }
  return true;
}

absl::StatusOr<bool> FramedChannel::TryReceive(google::protobuf::MessageLite* message) {
  while (true) {
    absl::StatusOr<bool> parsed = ParseOne(message);
    if (!parsed.ok() || *parsed) return parsed;
    if (consumed_ > 0) {
      input_.erase(0, consumed_);
      consumed_ = 0;
    }
    char block[kReadBytes];
    const ssize_t got = recv(fd_.get(), block, sizeof block, MSG_DONTWAIT);
    if (got > 0) {
      input_.append(block, got);
    } else if (got == 0 || errno == ECONNRESET) {
      if (input_.empty()) return absl::OutOfRangeError("the other side has closed the channel");
      return absl::DataLossError("the other side has closed the channel inside a message");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return absl::DataLossError(absl::StrFormat("channel: %s", strerror(errno)));
    }
  }
}

absl::Status FramedChannel::Receive(google::protobuf::MessageLite* message,
                                    absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const absl::StatusOr<bool> received = TryReceive(message);
    if (!received.ok()) return received.status();
    if (*received) return absl::OkStatus();
    if (!PollUntil(fd_.get(), POLLIN, deadline)) {
      return absl::DeadlineExceededError(absl::StrFormat("no %s within %s", message->GetTypeName(),
                                                         absl::FormatDuration(timeout)));
    }
  }
}

}  // namespace strata
