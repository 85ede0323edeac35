#ifndef STRATA_TESTS_E2E_TESTING_RECORDING_RELAY_H_
#define STRATA_TESTS_E2E_TESTING_RECORDING_RELAY_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/event_fd.h"
#include "common/unique_fd.h"

namespace strata::tests {

// A man in the middle: forwards connections to a port of 127.0.0.1, unchanged or modified, and
// records the bytes of each.
class RecordingRelay {
 public:
  // The position of bytes that pass.
  struct Place {
    size_t connection = 0;  // as in said()
    bool forwards = false;  // sent by the client
    uint64_t at = 0;        // bytes that passed before on this connection in this direction
  };
  struct Options {
    std::string host = "127.0.0.1";  // to listen on; IPv4
    int port = 0;                    // 0: any free port
    size_t recorded_max = 1 << 10;   // recorded bytes of each connection and direction, from its
                                     // start
    // May modify bytes of either direction; null: nothing is modified.
    std::function<void(const Place& place, char* bytes, size_t size)> change = nullptr;
  };
  // Relays to this port. Fails the test if it cannot listen.
  RecordingRelay(int to, const Options& options);
  ~RecordingRelay();

  // Returns the address it listens on: "HOST:PORT".
  std::string address() const;
  // Returns what clients sent, for each connection so far.
  std::vector<std::string> said();
  // Returns what each of them was answered.
  std::vector<std::string> answered();
  // Closes the oldest open connection. False if there is none.
  bool CutOldest();

 private:
  struct Line {
    UniqueFd from, to;
    size_t index;  // in said_ and answered_
    uint64_t passed_there = 0, passed_back = 0;
  };

  void Run();
  void Accept() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if one side has closed.
  bool Pass(Line* line, bool forwards) ABSL_LOCKS_EXCLUDED(mutex_);

  const int to_;
  const Options options_;
  const UniqueFd listener_;
  const EventFd stop_;
  absl::Mutex mutex_;
  std::vector<std::string> said_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> answered_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Line>> lines_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::thread thread_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_RECORDING_RELAY_H_
