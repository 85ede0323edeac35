#include "tests/e2e/s3/fault_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>

#include "common/random.h"
#include "common/require.h"

namespace strata {
namespace {

sockaddr_in Loopback(uint16_t port) {
  return {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

bool SendAll(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

void ReadToTheEnd(int fd) {
  char block[65536];
  while (recv(fd, block, sizeof block, 0) > 0) {
  }
}

}  // namespace

FaultProxy::FaultProxy(uint16_t server_port, uint64_t seed)
    : server_port_(server_port), seed_(seed), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  STRATA_REQUIRE(bind(listener_.get(), plain, size) == 0);
  STRATA_REQUIRE(listen(listener_.get(), 64) == 0);
  STRATA_REQUIRE(getsockname(listener_.get(), plain, &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

FaultProxy::~FaultProxy() {
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::array<int, FaultProxy::kKinds> FaultProxy::faults() const {
  absl::MutexLock lock(&mutex_);
  return faults_;
}

void FaultProxy::Accept() {
  for (uint64_t number = 0;; ++number) {
    UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
    if (!fd.valid()) return;
    absl::MutexLock lock(&mutex_);
    open_.push_back(fd.get());
    threads_.emplace_back([this, number, own = std::make_shared<UniqueFd>(std::move(fd))] {
      Serve(own->get(), number);
      absl::MutexLock closing(&mutex_);
      open_.remove(own->get());
      own->Reset();
    });
  }
}

void FaultProxy::Serve(int client, uint64_t number) {
  const Kind kind = static_cast<Kind>(RandomBelow(seed_, 2 * number, kKinds));
  // Small requests break as well as large ones: up to 512 B, 16 KiB, 512 KiB or 16 MiB.
  const uint64_t random = RandomBits(seed_, 2 * number + 1);
  const uint64_t bytes = (random >> 8) % (uint64_t{512} << (5 * (random % 4)));
  if (kind == kBusy) return Fault(client, kind);
  const UniqueFd server(socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = Loopback(server_port_);
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return;
  }
  if (Forward(client, server.get(), kind == kFaithful ? UINT64_MAX : bytes)) Fault(client, kind);
}

bool FaultProxy::Forward(int client, int server, uint64_t bytes_max) {
  uint64_t bytes = 0;
  char block[16384];
  while (bytes < bytes_max) {
    pollfd fds[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      const ssize_t got = recv(fds[i].fd, block, sizeof block, 0);
      if (got <= 0 || !SendAll(fds[1 - i].fd, block, static_cast<size_t>(got))) return false;
      bytes += static_cast<uint64_t>(got);
    }
  }
  return true;
}

void FaultProxy::Fault(int client, Kind kind) {
  {
    absl::MutexLock lock(&mutex_);
    ++faults_[kind];
  }
  if (kind == kReset) {
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return;
  }
  if (kind == kSilent) {
    pollfd gone = {client, POLLRDHUP, 0};
    poll(&gone, 1, -1);
    return;
  }
  if (kind != kBusy) return;
  char block[16384];
  if (recv(client, block, sizeof block, 0) <= 0) return;
  constexpr char kAnswer[] =
      "HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: 43\r\n\r\n"
      "<Error><Code>SlowDown</Code></Error>\n      ";
  SendAll(client, kAnswer, sizeof kAnswer - 1);
  shutdown(client, SHUT_WR);
  ReadToTheEnd(client);
}

}  // namespace strata
