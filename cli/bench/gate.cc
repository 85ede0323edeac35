#include "cli/bench/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::cli {
namespace {

void SendAtOnce(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

bool ReceiveAll(int fd, void* data, size_t bytes) {
  return recv(fd, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

bool SendAll(int fd, const void* data, size_t bytes) {
  return send(fd, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(uint32_t participants,
                                                 std::function<void()> after_step) {
  UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (!listening.valid() || bind(listening.get(), raw, length) != 0 ||
      listen(listening.get(), static_cast<int>(participants)) != 0 ||
      getsockname(listening.get(), raw, &length) != 0) {
    return absl::ErrnoToStatus(errno, "cannot open the gate");
  }
  absl::StatusOr<EventFd> stop = EventFd::Create();
  if (!stop.ok()) return stop.status();
  return std::unique_ptr<Gate>(new Gate(participants, std::move(after_step), std::move(listening),
                                        ntohs(address.sin_port), *std::move(stop)));
}

Gate::Gate(uint32_t participants, std::function<void()> after_step, UniqueFd listening, int port,
           EventFd stop)
    : participants_(participants),
      after_step_(std::move(after_step)),
      listening_(std::move(listening)),
      port_(port),
      stop_(std::move(stop)),
      thread_([this] { Serve(); }) {}

Gate::~Gate() {
  stop_.Notify();
  thread_.join();
}

std::vector<double> Gate::steps_ms() const {
  absl::MutexLock lock(&mutex_);
  return steps_ms_;
}

bool Gate::all_right() const {
  absl::MutexLock lock(&mutex_);
  return all_right_;
}

bool Gate::AwaitReadable(int fd) const {
  pollfd fds[] = {{fd, POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
  while (poll(fds, 2, -1) < 0) {
    if (errno != EINTR) return false;
  }
  return fds[1].revents == 0;
}

void Gate::Serve() {
  std::vector<UniqueFd> connections;
  while (connections.size() < participants_) {
    if (!AwaitReadable(listening_.get())) return;
    UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) continue;
    SendAtOnce(fd.get());
    connections.push_back(std::move(fd));
  }
  while (Meet(connections)) {
  }
}

bool Gate::Meet(const std::vector<UniqueFd>& connections) {
  double slowest_ms = -1;
  bool right = true;
  for (const UniqueFd& connection : connections) {
    Arrival arrival;
    if (!AwaitReadable(connection.get())) return false;
    if (!ReceiveAll(connection.get(), &arrival, sizeof(arrival))) return false;
    slowest_ms = std::max(slowest_ms, arrival.step_ms);
    right = right && arrival.wrong == 0;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (slowest_ms >= 0) steps_ms_.push_back(slowest_ms);
    all_right_ = all_right_ && right;
  }
  if (slowest_ms >= 0 && after_step_) after_step_();
  for (const UniqueFd& connection : connections) {
    const char go = 1;
    if (!SendAll(connection.get(), &go, 1)) return false;
  }
  return true;
}

absl::StatusOr<GateConnection> GateConnection::Connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("gate ", address, ": not ADDRESS:PORT"));
  }
  to.sin_port = htons(static_cast<uint16_t>(port));
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    return absl::UnavailableError(absl::StrCat("gate ", address, " cannot be reached"));
  }
  SendAtOnce(fd.get());
  return GateConnection(std::move(fd));
}

absl::Status GateConnection::Meet(const Arrival& arrival) {
  char go = 0;
  if (SendAll(fd_.get(), &arrival, sizeof(arrival)) && ReceiveAll(fd_.get(), &go, 1)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("the gate is closed: another participant has ended");
}

}  // namespace strata::cli
