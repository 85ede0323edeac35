#include "common/os/framed_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"

namespace strata {
namespace {

constexpr size_t kLengthBytesMax = 5;
constexpr size_t kReadBytes = 65536;

void AppendLength(uint32_t length, std::string* out) {
  for (; length >= 0x80; length >>= 7) out->push_back(static_cast<char>(length | 0x80));
  out->push_back(static_cast<char>(length));
}

// Parses a varint at the front of `bytes`; returns its length, 0 if incomplete.
size_t ParseLength(absl::Span<const char> bytes, uint64_t* length) {
  *length = 0;
  for (size_t i = 0; i < bytes.size() && i < kLengthBytesMax; ++i) {
    const auto octet = static_cast<unsigned char>(bytes[i]);
    *length |= static_cast<uint64_t>(octet & 0x7f) << (7 * i);
    if (octet < 0x80) return i + 1;
  }
  if (bytes.size() >= kLengthBytesMax) *length = UINT64_MAX;
  return 0;
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
  output.reserve(kLengthBytesMax + size);
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
  const absl::Span<const char> there = absl::MakeConstSpan(input_).subspan(consumed_);
  uint64_t length = 0;
  const size_t prefix = ParseLength(there, &length);
  if (length > kMessageBytesMax) {
    return absl::DataLossError(
        absl::StrFormat("a message is longer than the channel's %d bytes", kMessageBytesMax));
  }
  if (prefix == 0 || there.size() < prefix + length) return false;
  if (!message->ParseFromArray(there.data() + prefix, static_cast<int>(length))) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes are not a %s", length, message->GetTypeName()));
  }
  consumed_ += prefix + length;
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
