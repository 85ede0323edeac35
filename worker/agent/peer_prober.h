#ifndef STRATA_WORKER_AGENT_PEER_PROBER_H_
#define STRATA_WORKER_AGENT_PEER_PROBER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/event_fd.h"
#include "proto/control.pb.h"

namespace strata::worker {

// Tries to connect to the addresses that the coordinator requests, on a thread of its own: neither
// a silent host nor a slow name service blocks the agent.
//
// Threads: Try from any; Stop and destruction from one. `on_tried` is called from the prober's.
class PeerProber {
 public:
  struct Options {
    // Time per address; shorter than the coordinator's patience for a first answer.
    absl::Duration timeout = absl::Seconds(2);
  };
  // `on_tried` gets each result once, in order. Errors: ResourceExhausted (descriptors).
  static absl::StatusOr<std::unique_ptr<PeerProber>> Create(
      Options options, std::function<void(proto::PeersTried)> on_tried);
  ~PeerProber();  // stops

  // An address that is requested again before it was tried is tried once.
  void Try(const proto::TryPeers& ask);
  // No results come after it. An unresponsive name service can delay it. Idempotent.
  void Stop();

 private:
  PeerProber(Options options, std::function<void(proto::PeersTried)> on_tried, EventFd cancel);

  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !asked_.empty();
  }

  const Options options_;
  const std::function<void(proto::PeersTried)> on_tried_;
  const EventFd cancel_;
  absl::Mutex mutex_;
  std::map<std::string, std::string> asked_ ABSL_GUARDED_BY(mutex_);  // names by address
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_PEER_PROBER_H_
