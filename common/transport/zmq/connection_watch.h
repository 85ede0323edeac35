#ifndef STRATA_COMMON_TRANSPORT_ZMQ_CONNECTION_WATCH_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_CONNECTION_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace strata::transport {

// Decides which accepted connections to end: strangers (connections that were not admitted) after
// too long, and all connections whose message never ends. ZeroMQ limits each part of a message but
// not their number (an empty part takes 2 bytes of a connection and 64 of memory), and shows
// nothing of a message before its last part. So this compares the bytes taken from a connection
// since its last complete message with the limit of a message.
class ConnectionWatch {
 public:
  struct Limits {
    uint64_t stranger_bytes_max = 0;
    uint64_t bytes_max = 0;  // for admitted connections
    absl::Duration stranger_timeout = absl::InfiniteDuration();
  };
  explicit ConnectionWatch(const Limits& limits) : limits_(limits) {}

  void OnOpened(int fd, absl::Time now);
  void OnClosed(int fd) { connections_.erase(fd); }
  // A complete message of this connection was received, a frame or something else.
  void OnMessage(int fd);
  // Marks the connection as authenticated.
  void Admit(int fd);

  // Returns the oldest stranger.
  std::optional<int> OldestStranger() const;

  struct Found {
    std::vector<int> endless, late;  // strangers beyond their time
  };
  // Call it regularly when no complete message waits. `bytes_taken(fd)`: total bytes that ZeroMQ
  // has read from the connection. Endless connections are those over the limit in both this and the
  // previous call, because a message that came just now is still to be received. Each connection is
  // reported once.
  Found Look(absl::Time now, const std::function<uint64_t(int fd)>& bytes_taken);

 private:
  struct Connection {
    absl::Time opened_at;
    uint64_t order = 0;
    uint64_t bytes_at_message = 0;  // at the first Look after the last message
    bool has_message = false;       // since the last Look
    bool is_admitted = false;
    bool is_over = false;
    bool is_found = false;
  };

  const Limits limits_;
  uint64_t opened_ = 0;
  absl::flat_hash_map<int, Connection> connections_;  // by descriptor
};

// Returns the bytes read from a TCP connection since it began; 0: none, or not a TCP connection.
uint64_t BytesTaken(int fd);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_CONNECTION_WATCH_H_
