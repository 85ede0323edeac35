#ifndef STRATA_COMMON_TRANSPORT_ZMQ_PARTIAL_MESSAGES_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_PARTIAL_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace strata::transport {

// Finds accepted connections whose message never ends. ZeroMQ bounds each part of a message but not
// their number (an empty part takes 2 bytes of a connection and 64 of memory), and shows nothing of
// a message before its last part: so this compares what it has taken from a connection since that
// one's last whole message with what a message may have.
class PartialMessages {
 public:
  struct Limits {
    uint64_t stranger_bytes_max = 0;  // of those who were not admitted
    uint64_t bytes_max = 0;
  };
  explicit PartialMessages(const Limits& limits) : limits_(limits) {}

  void OnOpened(int fd) { connections_[fd] = {}; }
  void OnClosed(int fd) { connections_.erase(fd); }
  // A whole message of this connection was received, a frame or something else.
  void OnMessage(int fd);
  // It is known who is behind it.
  void Admit(int fd);

  // Call it, from time to time, when no whole message waits. `bytes_taken(fd)`: all that ZeroMQ has
  // read from the connection so far. Returns those that were over the limit in this and in the last
  // call; once, because a message that came just now is still to be received.
  std::vector<int> Look(const std::function<uint64_t(int fd)>& bytes_taken);

 private:
  struct Connection {
    uint64_t bytes_at_message = 0;  // at the first Look after the last message
    bool has_message = false;       // since the last Look
    bool is_admitted = false;
    bool is_over = false;
  };

  const Limits limits_;
  absl::flat_hash_map<int, Connection> connections_;  // by descriptor
};

// What has been read from a TCP connection since it began. 0: it has none, is no TCP connection.
uint64_t BytesTaken(int fd);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_PARTIAL_MESSAGES_H_
