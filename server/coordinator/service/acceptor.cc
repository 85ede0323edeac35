#include "server/coordinator/service/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/log.h"
#include "server/coordinator/service/listening.h"

namespace strata::server {
namespace {

// Until a connection is tried to be taken again that could not be.
constexpr int kPauseMs = 50;

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
    // Whoever wanted to connect may have left again.
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
  const int on = 1;  // of TCP alone
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  callbacks_.take(std::move(fd), is_own);
  return true;
}

}  // namespace strata::server
