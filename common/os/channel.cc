#include "common/os/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace strata {
namespace {

// Removes whole messages from the front of `in`.
absl::Status Split(std::string* in, std::vector<std::string>* messages) {
  size_t used = 0;
  while (used < in->size()) {
    google::protobuf::io::CodedInputStream stream(
        reinterpret_cast<const uint8_t*>(in->data() + used), static_cast<int>(in->size() - used));
    uint32_t bytes = 0;
    if (!stream.ReadVarint32(&bytes)) {
      if (in->size() - used >= 10) return absl::InvalidArgumentError("bad message length");
      break;  // the length itself is incomplete
    }
    if (bytes > Channel::kMessageBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("message of ", bytes, " bytes"));
    }
    size_t begin = used + stream.CurrentPosition();
    if (in->size() - begin < bytes) break;
    messages->push_back(in->substr(begin, bytes));
    used = begin + bytes;
  }
  in->erase(0, used);
  return absl::OkStatus();
}

}  // namespace

Channel::Channel(int fd, size_t queued_bytes_max) : fd_(fd), queued_bytes_max_(queued_bytes_max) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

Channel::~Channel() { close(fd_); }

void Channel::Send(const google::protobuf::MessageLite& message) {
  if (out_.size() + message.ByteSizeLong() > queued_bytes_max_) {
    out_.clear();
    shutdown(fd_, SHUT_RDWR);
    return;
  }
  google::protobuf::io::StringOutputStream stream(&out_);  // appends
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteVarint32(static_cast<uint32_t>(message.ByteSizeLong()));
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  Flush();
}

void Channel::Flush() {
  while (!out_.empty()) {
    ssize_t sent = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) {
      out_.clear();  // closed by the peer: Receive reports it
      return;
    }
    out_.erase(0, static_cast<size_t>(sent));
  }
}

absl::StatusOr<std::vector<std::string>> Channel::Receive() {
  char buffer[16384];
  while (!closed_) {
    ssize_t got = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      closed_ = true;
    } else {
      in_.append(buffer, static_cast<size_t>(got));
    }
  }
  std::vector<std::string> messages;
  absl::Status split = Split(&in_, &messages);
  if (!split.ok()) return split;
  if (closed_ && messages.empty()) {
    if (!in_.empty()) return absl::DataLossError("closed by the other side inside a message");
    return absl::OutOfRangeError("closed by the other side");
  }
  return messages;
}

}  // namespace strata
