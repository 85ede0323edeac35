#include "common/transport/zmq/partial_messages.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace strata::transport {

void PartialMessages::OnMessage(int fd) {
  if (const auto it = connections_.find(fd); it != connections_.end())
    it->second.has_message = true;
}

void PartialMessages::Admit(int fd) {
  if (const auto it = connections_.find(fd); it != connections_.end())
    it->second.is_admitted = true;
}

std::vector<int> PartialMessages::Look(const std::function<uint64_t(int fd)>& bytes_taken) {
  std::vector<int> found;
  for (auto& [fd, connection] : connections_) {
    const uint64_t bytes = bytes_taken(fd);
    if (std::exchange(connection.has_message, false)) connection.bytes_at_message = bytes;
    const uint64_t bytes_max =
        connection.is_admitted ? limits_.bytes_max : limits_.stranger_bytes_max;
    const bool is_over = bytes > connection.bytes_at_message + bytes_max;
    if (std::exchange(connection.is_over, is_over) && is_over) {
      connection = {.bytes_at_message = bytes, .is_admitted = connection.is_admitted};
      found.push_back(fd);
    }
  }
  std::sort(found.begin(), found.end());
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
