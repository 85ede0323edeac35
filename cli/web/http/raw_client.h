#ifndef STRATA_CLI_WEB_HTTP_RAW_CLIENT_H_
#define STRATA_CLI_WEB_HTTP_RAW_CLIENT_H_

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::cli {

// A connection to 127.0.0.1:PORT that says whatever a test wants and hears what comes back.
class RawClient {
 public:
  // `receive_buffer`: of the socket, in bytes; 0: as it is.
  explicit RawClient(int port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  bool Send(absl::string_view bytes) {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Hears until `text` is among what was heard. False: the other side has closed, or time is over.
  bool Hear(const std::string& text, absl::Duration within = absl::Seconds(10)) {
    const absl::Time until = absl::Now() + within;
    while (heard_.find(text) == std::string::npos) {
      if (!HearMore(until)) return false;
    }
    return true;
  }
  // Whether the other side closes within so long.
  bool HearEnd(absl::Duration within = absl::Seconds(10)) {
    const absl::Time until = absl::Now() + within;
    while (HearMore(until)) {
    }
    return is_closed_;
  }
  // Hears so many bytes at most and forgets them; returns how many it were. 0: the other side has
  // closed.
  size_t Drop(size_t bytes) {
    std::string dropped(bytes, '\0');
    const ssize_t size = recv(fd_.get(), dropped.data(), bytes, 0);
    return size > 0 ? size : 0;
  }
  // Hears one whole answer with a Content-Length and takes it away; empty: none came.
  std::string TakeAnswer(bool has_body = true) {
    if (!Hear("\r\n\r\n")) return "";
    const size_t head = heard_.find("\r\n\r\n") + 4;
    const std::string kLength = "Content-Length: ";
    const size_t at = heard_.find(kLength);
    size_t body = 0;
    if (has_body && at < head) {
      const size_t from = at + kLength.size();
      if (!absl::SimpleAtoi(heard_.substr(from, heard_.find('\r', from) - from), &body)) return "";
    }
    const absl::Time until = absl::Now() + absl::Seconds(10);
    while (heard_.size() < head + body) {
      if (!HearMore(until)) return "";
    }
    const std::string answer = heard_.substr(0, head + body);
    heard_.erase(0, head + body);
    return answer;
  }
  std::string Ask(absl::string_view request) { return Send(request) ? TakeAnswer() : ""; }

  const std::string& heard() const { return heard_; }

 private:
  bool HearMore(absl::Time until) {
    pollfd ready = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(until - absl::Now());
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[16 << 10];
    const ssize_t size = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (size <= 0) is_closed_ = true;
    if (size > 0) heard_.append(bytes, size);
    return size > 0;
  }

  const UniqueFd fd_;
  bool connected_ = false;
  bool is_closed_ = false;
  std::string heard_;
};

// A GET without a body.
inline std::string GetRequest(absl::string_view path, absl::string_view headers = "") {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_HTTP_RAW_CLIENT_H_
