#ifndef STRATA_TESTS_NETNS_PACKET_CAPTURE_H_
#define STRATA_TESTS_NETNS_PACKET_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/event_fd.h"
#include "common/unique_fd.h"

namespace strata::tests {

// Somebody at the switch of a Network, who hears each packet as it comes over its sender's cable.
// Threads: any.
class PacketCapture {
 public:
  // Listens from now on, in the network of this process. Errors: what the kernel says.
  static absl::StatusOr<std::unique_ptr<PacketCapture>> Start();
  ~PacketCapture();

  // Returns the packets since the last call, from their Ethernet headers on.
  std::vector<std::string> Take();
  // Packets that nobody has: they came faster than they were read, or were too many to keep.
  uint64_t lost();

 private:
  PacketCapture(UniqueFd socket, EventFd stop);
  void Run();
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);

  const UniqueFd socket_;
  const EventFd stop_;
  std::string buffer_;  // of the thread
  absl::Mutex mutex_;
  std::vector<std::string> packets_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

// What the packets say, by TCP connection and direction; a packet of anything else is a stream by
// itself.
std::vector<std::string> StreamsOf(const std::vector<std::string>& packets);

}  // namespace strata::tests

#endif  // STRATA_TESTS_NETNS_PACKET_CAPTURE_H_
