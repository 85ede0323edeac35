#include "server/coordinator/service/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"

namespace strata::server {
namespace {

// Pause before accepting again after a failure.
constexpr int kPauseMs = 50;

absl::Status Refuse(const std::string& address, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::Status FromErrno(const std::string& address, int error) {
  const std::string line = absl::StrCat("cannot listen on ", address, ": ", std::strerror(error));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(line);
  if (error == EACCES) return absl::PermissionDeniedError(line);
  return absl::InvalidArgumentError(line);
}

void SetPort(sockaddr* address, int port) {
  const auto network = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = network;
  if (address->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address)->sin6_port = network;
}

// Returns errno, or 0: it listens.
int ListenAt(const addrinfo& at, UniqueFd* listener) {
  listener->Reset(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener->valid()) return errno;
  const int on = 1;
  setsockopt(listener->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens = bind(listener->get(), at.ai_addr, at.ai_addrlen) == 0 &&
                       listen(listener->get(), SOMAXCONN) == 0;
  return listens ? 0 : errno;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Create(const Options& options) {
  absl::StatusOr<EventFd> stop = EventFd::Create();
  if (!stop.ok()) return stop.status();
  std::unique_ptr<Acceptor> acceptor(new Acceptor(options.descriptors_max, *std::move(stop)));
  if (const std::optional<std::string> path = UnixPath(options.listen)) {
    absl::StatusOr<UnixListener> own = UnixListener::Create(*path);
    if (!own.ok()) return own.status();
    acceptor->own_.emplace(*std::move(own));
    return acceptor;
  }
  absl::StatusOr<std::vector<UniqueFd>> listeners = ListenOn(options.listen);
  if (!listeners.ok()) return listeners.status();
  acceptor->listeners_ = *std::move(listeners);
  if (options.also.empty()) return acceptor;
  absl::StatusOr<UnixListener> own = UnixListener::Create(options.also);
  if (own.ok()) {
    acceptor->own_.emplace(*std::move(own));
  } else {
    LogInfo("commands on this host need --coordinator: %s", std::string(own.status().message()));
  }
  return acceptor;
}

Acceptor::~Acceptor() { Stop(); }

int Acceptor::port() const { return listeners_.empty() ? 0 : BoundPort(listeners_[0]); }

void Acceptor::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  stop_.Notify();
  thread_.join();
  listeners_.clear();
  own_.reset();
}

void Acceptor::Run() {
  std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}};
  for (const UniqueFd& listener : listeners_) fds.push_back({listener.get(), POLLIN, 0});
  if (own_) fds.push_back({own_->fd().get(), POLLIN, 0});
  while (true) {
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0 && !AcceptFrom(fds[i].fd)) poll(fds.data(), 1, kPauseMs);
    }
  }
}

bool Acceptor::AcceptFrom(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    // The client may have disconnected already.
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  if (fd.get() >= descriptors_max_) {
    callbacks_.refused();
    return true;
  }
  const bool is_own = own_ && listener == own_->fd().get();
  if (is_own && !MayUse(fd.get())) {
    callbacks_.stranger();
    return true;
  }
  const int on = 1;  // TCP only
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  callbacks_.take(std::move(fd), is_own);
  return true;
}

absl::StatusOr<std::vector<UniqueFd>> ListenOn(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Refuse(address, "expected HOST:PORT");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = address.substr(colon + 1);
  uint32_t number = 0;
  if (host.empty() || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return Refuse(address, "expected HOST:PORT");
  }
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return Refuse(address, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<UniqueFd> listeners;
  int first_error = 0;
  for (addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (number == 0 && !listeners.empty()) SetPort(at->ai_addr, BoundPort(listeners[0]));
    UniqueFd listener;
    const int error = ListenAt(*at, &listener);
    if (error == EADDRINUSE && number != 0) return FromErrno(address, error);
    if (error != 0 && first_error == 0) first_error = error;
    if (error == 0) listeners.push_back(std::move(listener));
  }
  if (listeners.empty()) return FromErrno(address, first_error);
  return listeners;
}

int BoundPort(const UniqueFd& listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
}

}  // namespace strata::server
