#include "common/transport/zmq/connection_watch.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace strata::transport {

void ConnectionWatch::OnOpened(int fd, absl::Time now) {
  connections_[fd] = {.opened_at = now, .order = ++opened_};
}

void ConnectionWatch::OnMessage(int fd) {
  if (const auto it = connections_.find(fd); it != connections_.end())
    it->second.has_message = true;
}

void ConnectionWatch::Admit(int fd) {
  if (const auto it = connections_.find(fd); it != connections_.end())
    it->second.is_admitted = true;
}

std::optional<int> ConnectionWatch::OldestStranger() const {
  std::optional<int> oldest;
  uint64_t order = 0;
  for (const auto& [fd, connection] : connections_) {
    if (connection.is_admitted || connection.is_found) continue;
    if (oldest && connection.order > order) continue;
    oldest = fd;
    order = connection.order;
  }
  return oldest;
}

ConnectionWatch::Found ConnectionWatch::Look(absl::Time now,
                                             const std::function<uint64_t(int fd)>& bytes_taken) {
  Found found;
  for (auto& [fd, connection] : connections_) {
    if (connection.is_found) continue;
    const uint64_t bytes = bytes_taken(fd);
    if (std::exchange(connection.has_message, false)) connection.bytes_at_message = bytes;
    const uint64_t bytes_max =
        connection.is_admitted ? limits_.bytes_max : limits_.stranger_bytes_max;
    const bool is_over = bytes > connection.bytes_at_message + bytes_max;
    const bool is_late =
        !connection.is_admitted && now - connection.opened_at >= limits_.stranger_timeout;
    if (std::exchange(connection.is_over, is_over) && is_over) {
      found.endless.push_back(fd);
    } else if (is_late) {
      found.late.push_back(fd);
    } else {
      continue;
    }
    connection.is_found = true;
  }
  std::sort(found.endless.begin(), found.endless.end());
  std::sort(found.late.begin(), found.late.end());
  return found;
}

uint64_t BytesTaken(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  int unread = 0;  // in the kernel
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
      ioctl(fd, FIONREAD, &unread) != 0) {
    return 0;
  }
  return info.tcpi_bytes_received - std::min<uint64_t>(info.tcpi_bytes_received, unread);
}

}  // namespace strata::transport
