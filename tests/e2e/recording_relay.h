#ifndef STRATA_TESTS_E2E_RECORDING_RELAY_H_
#define STRATA_TESTS_E2E_RECORDING_RELAY_H_

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/event_fd.h"
#include "common/unique_fd.h"

namespace strata::tests {

// Somebody on the way: passes connections on to a port of 127.0.0.1, as they are, and remembers
// how each of them began.
class RecordingRelay {
 public:
  explicit RecordingRelay(int port);
  ~RecordingRelay();

  // Where it listens: "127.0.0.1:PORT".
  std::string address() const;
  // The first KiB that was said by who connected, for each connection so far.
  std::vector<std::string> said();

 private:
  struct Line {
    UniqueFd from, to;
    size_t index;  // in said_
  };

  void Run();
  void Accept(std::vector<Line>* lines);
  // False: one side has ended.
  bool Pass(const Line& line, bool forwards);

  const int port_;
  const UniqueFd listener_;
  const EventFd stop_;
  absl::Mutex mutex_;
  std::vector<std::string> said_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_RECORDING_RELAY_H_
