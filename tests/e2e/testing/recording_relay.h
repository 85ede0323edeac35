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

// Somebody on the way: passes connections on to a port of 127.0.0.1, as they are or changed, and
// remembers what was said on each of them.
class RecordingRelay {
 public:
  // Where bytes stand that pass.
  struct Place {
    size_t connection = 0;  // as in said()
    bool forwards = false;  // said by who connected
    uint64_t at = 0;        // bytes that passed before, on this connection and that way
  };
  struct Options {
    std::string host = "127.0.0.1";  // to listen at; IPv4
    int port = 0;                    // 0: any free one
    size_t recorded_max = 1 << 10;   // bytes of each connection and direction, its first ones
    // May change what passes, either way; null: nothing is changed.
    std::function<void(const Place& place, char* bytes, size_t size)> change = nullptr;
  };
  // Relays to this port. Fails the test if it cannot listen.
  RecordingRelay(int to, const Options& options);
  ~RecordingRelay();

  // Returns where it listens: "HOST:PORT".
  std::string address() const;
  // What was said by who connected, for each connection so far.
  std::vector<std::string> said();
  // What was answered on each of them.
  std::vector<std::string> answered();
  // Ends the oldest connection that is open. False: there is none.
  bool CutOldest();

 private:
  struct Line {
    UniqueFd from, to;
    size_t index;  // in said_ and answered_
    uint64_t passed_there = 0, passed_back = 0;
  };

  void Run();
  void Accept() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: one side has ended.
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
