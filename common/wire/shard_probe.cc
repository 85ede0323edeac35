#include "common/wire/shard_probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/interfaces.h"
#include "common/os/limits.h"
#include "common/unique_fd.h"
#include "common/wire/frame.h"

namespace strata::net {
namespace {

constexpr char kScheme[] = "tcp://";
// ZMTP 3 (rfc.zeromq.org/spec/23): each peer sends a greeting of 64 bytes, then a READY command.
constexpr size_t kGreetingBytes = 64;
constexpr size_t kSignatureBytes = 10;
constexpr char kReadyBegin[] = "\x05READY";  // after the command's flags and size
constexpr size_t kReadyBytes = 2 + sizeof(kReadyBegin) - 1;

// The opening bytes of a peer with a DEALER socket and no security.
std::string Hello() {
  std::string greeting(kGreetingBytes, '\0');
  greeting[0] = '\xff';
  greeting[8] = '\x01';
  greeting[9] = '\x7f';
  greeting[10] = '\x03';
  greeting.replace(12, 4, "NULL");
  std::string ready = kReadyBegin;
  absl::StrAppend(&ready, "\x0bSocket-Type", absl::string_view("\0\0\0\x06", 4), "DEALER");
  return greeting + '\x04' + static_cast<char>(ready.size()) + ready;
}

std::string Words(int error) {
  std::string text = std::strerror(error);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

// One connection attempt.
class Attempt {
 public:
  Attempt(const std::string& address, absl::Time deadline)
      : address_(address), deadline_(deadline) {
    Start();
  }

  const std::string& address() const { return address_; }
  int fd() const { return fd_.get(); }
  short wanted() const { return connected_ ? POLLIN : POLLOUT; }
  bool done() const { return done_; }
  absl::Time deadline() const { return deadline_; }
  const std::string& error() const { return error_; }

  void OnReady() {
    if (!connected_) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return Finish(Words(error));
      connected_ = true;
      const std::string hello = Hello();
      // A fresh connection accepts so few bytes at once.
      if (send(fd_.get(), hello.data(), hello.size(), MSG_NOSIGNAL) < 0) Finish(Words(errno));
      return;
    }
    char bytes[256];
    const ssize_t got = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return Finish(Words(errno));
    if (got == 0) return Finish("the connection was closed at once");
    answer_.append(bytes, static_cast<size_t>(got));
    Judge();
  }

  void OnTimeout(absl::Duration timeout) {
    Finish(connected_ ? absl::StrCat("it took the connection, but has not answered for ",
                                     absl::FormatDuration(timeout))
                      : "connection timed out");
  }

 private:
  void Start() {
    const size_t colon = address_.rfind(':');
    uint32_t port = 0;
    if (address_.rfind(kScheme, 0) != 0 || colon < sizeof(kScheme) ||
        !absl::SimpleAtoi(address_.substr(colon + 1), &port) || port < 1 || port > 65535) {
      return Finish("the address is not tcp://HOST:PORT");
    }
    const size_t begin = sizeof(kScheme) - 1;
    const absl::StatusOr<Ipv4> host = Resolve(address_.substr(begin, colon - begin));
    if (!host.ok()) return Finish(std::string(host.status().message()));
    fd_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_.valid()) return Finish(absl::StrCat("no socket to try with: ", Words(errno)));
    sockaddr_in peer = {};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<uint16_t>(port));
    peer.sin_addr.s_addr = htonl(host->bits);
    if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) != 0 &&
        errno != EINPROGRESS) {
      Finish(Words(errno));
    }
  }

  void Judge() {
    const bool is_foreign = answer_[0] != '\xff' || (answer_.size() >= kSignatureBytes &&
                                                     answer_[kSignatureBytes - 1] != '\x7f');
    if (is_foreign) return Finish("something listens there, but it is not a shard of a server");
    if (answer_.size() < kGreetingBytes + kReadyBytes) return;
    const bool is_ready = answer_.compare(kGreetingBytes + 2, kReadyBytes - 2, kReadyBegin) == 0;
    if (is_ready) SayProbe();
    Finish(is_ready ? "" : "it refuses the connection in ZeroMQ's handshake");
  }

  // Best effort: the shard counts peers that leave without a message.
  void SayProbe() {
    const std::string probe = wire::kProbe;
    const std::string message = std::string({'\0', static_cast<char>(probe.size())}) + probe;
    send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL);
  }

  void Finish(std::string error) {
    done_ = true;
    error_ = std::move(error);
    fd_.Reset();
  }

  std::string address_;
  absl::Time deadline_;
  UniqueFd fd_;
  bool connected_ = false;
  bool done_ = false;
  std::string answer_;
  std::string error_;
};

}  // namespace

void ProbeShards(const std::vector<std::string>& addresses, absl::Duration timeout, int cancel_fd,
                 const std::function<void(std::vector<ProbeResult>)>& on_results) {
  std::vector<Attempt> attempts;
  auto next = addresses.begin();
  while (true) {
    while (attempts.size() < kProbesMax && next != addresses.end()) {
      attempts.emplace_back(*next++, absl::Now() + timeout);
    }
    std::vector<ProbeResult> results;
    const absl::Time now = absl::Now();
    for (Attempt& attempt : attempts) {
      if (!attempt.done() && attempt.deadline() <= now) attempt.OnTimeout(timeout);
      if (attempt.done()) results.push_back({attempt.address(), attempt.error()});
    }
    std::erase_if(attempts, [](const Attempt& attempt) { return attempt.done(); });
    const bool has_room = !results.empty();
    if (has_room) on_results(std::move(results));
    if (attempts.empty() && next == addresses.end()) return;
    if (has_room && next != addresses.end()) continue;
    // The first is the oldest.
    const absl::Duration left = attempts[0].deadline() - absl::Now();
    std::vector<pollfd> fds = {{cancel_fd, POLLIN, 0}};
    for (const Attempt& attempt : attempts) fds.push_back({attempt.fd(), attempt.wanted(), 0});
    const int64_t left_ms = absl::ToInt64Milliseconds(std::max(left, absl::ZeroDuration()));
    poll(fds.data(), fds.size(), static_cast<int>(left_ms) + 1);
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < attempts.size(); ++i) {
      if (fds[i + 1].revents != 0) attempts[i].OnReady();
    }
  }
}

}  // namespace strata::net
