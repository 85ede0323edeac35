#ifndef STRATA_CLI_BENCH_GATE_H_
#define STRATA_CLI_BENCH_GATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/event_fd.h"
#include "common/unique_fd.h"

namespace strata::cli {

// A participant's message at the gate: once before each step and, with its time, once after it,
// before the values are checked. Little-endian, as in memory.
struct Arrival {
  double step_ms = -1;  // duration of the step just done; below 0: it is about to begin one
  uint32_t wrong = 0;   // not 0: values after a step were wrong
  uint32_t reserved = 0;
};
static_assert(sizeof(Arrival) == 16);

// Synchronizes the participants of a measurement, so that all start a step together. A participant
// sends its Arrival; when all have, each gets one byte. It ends when one of them disconnects.
//
// Threads: one of its own serves the participants; calls come from one other thread.
class Gate {
 public:
  // Listens on all interfaces. `after_step` is called on the gate's thread when all have ended a
  // step and none has been released. Errors: the operating system's.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(uint32_t participants,
                                                    std::function<void()> after_step = nullptr);
  ~Gate();  // closes it

  int port() const { return port_; }
  // The steps so far: for each step the longest time of any participant, and whether all values
  // were right.
  std::vector<double> steps_ms() const;
  bool all_right() const;

 private:
  Gate(uint32_t participants, std::function<void()> after_step, UniqueFd listening, int port,
       EventFd stop);

  void Serve();
  // Synchronizes one step; returns false if it is over.
  bool Meet(const std::vector<UniqueFd>& connections);
  // Waits until `fd` is readable; returns false if the gate closes.
  bool AwaitReadable(int fd) const;

  const uint32_t participants_;
  const std::function<void()> after_step_;
  const UniqueFd listening_;
  const int port_;
  const EventFd stop_;
  mutable absl::Mutex mutex_;
  std::vector<double> steps_ms_ ABSL_GUARDED_BY(mutex_);
  bool all_right_ ABSL_GUARDED_BY(mutex_) = true;
  std::thread thread_;
};

// A participant's end.
class GateConnection {
 public:
  // `address`: "HOST:PORT" with an IPv4 address. Errors: Unavailable naming it.
  static absl::StatusOr<GateConnection> Connect(const std::string& address);

  // Waits for the others. Errors: Unavailable (somebody has left).
  absl::Status Meet(const Arrival& arrival);

 private:
  explicit GateConnection(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_GATE_H_
