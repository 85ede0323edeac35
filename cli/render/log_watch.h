#ifndef STRATA_CLI_RENDER_LOG_WATCH_H_
#define STRATA_CLI_RENDER_LOG_WATCH_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/logs.pb.h"

namespace strata::cli {

// The logs of all ranks of a job, of one rank, or of the job's aggregators.
struct LogChoice {
  uint32_t job = 0;
  std::optional<uint32_t> rank = {};
  bool aggregators = false;

  auto operator<=>(const LogChoice&) const = default;
};

// A reader's knowledge of the job.
struct LogJob {
  std::string cluster;  // its id: in another cluster the same number is another job
  uint32_t ranks = 1;
  bool has_ended = false;
};

struct LogLine {
  std::string process;      // "3", "aggregator 1"; empty: none
  std::string text;         // plain text, whatever the program wrote; truncated if too long
  bool is_problem = false;  // not the program's: why it shows no more
};

// A reader's position; a new one has read nothing.
struct LogPlace {
  uint64_t reading = 0;
  uint64_t version = 0;
  uint64_t line = 0;
  absl::Time told_at = absl::InfinitePast();
};

struct LogNews {
  bool anew = false;         // earlier lines are repeated, or gone
  uint64_t passed_over = 0;  // lines for which this reader was too slow
  std::vector<LogLine> lines;
  std::string problem;  // why no lines come, in one line; empty: there is no problem
  bool ended = false;   // the job has ended: everything was shown, and no more will come
};

// Reads logs of one request. Threads: Read from one, Stop from any.
class LogSource {
 public:
  virtual ~LogSource() = default;
  // As LogsClient::Read.
  virtual absl::Status Read(const proto::ReadLogs& request,
                            const std::function<void(const proto::LogLines&)>& on_lines) = 0;
  // Ends Read, also a later call; does not wait for it.
  virtual void Stop() = 0;
};

// The newest lines of the logs with viewers, each read once for any number of viewers. Logs without
// viewers are not read. Its memory is bounded, whatever the programs write.
//
// Threads: any.
class LogWatch {
 public:
  struct Options {
    std::function<std::unique_ptr<LogSource>()> connect;
    size_t readings_max = 8;
    size_t lines_max = 500;                             // per log
    size_t line_bytes_max = 2000;                       // of longer ones only the length of the
                                                        // rest is reported
    absl::Duration idle_after = absl::Seconds(10);      // since the last viewer
    absl::Duration gives_way_after = absl::Seconds(3);  // to others, since then
    absl::Duration retry_after = absl::Seconds(2);      // if a reading is over but its job is not
    absl::Duration well_after = absl::Seconds(3);       // a reading without failure until then
    // The wait after a process could not be read, as when its node moves; it increases each time.
    absl::Duration again_after = absl::Seconds(10);
    // Called when there are new lines, on threads of the watch, at most at this interval: later
    // lines wait until the next call, or until a viewer looks. It must not call the watch. Readers
    // get news no more often, either.
    absl::Duration change_every = absl::Milliseconds(200);
    std::function<void()> on_change = [] {};
  };

  explicit LogWatch(Options options) : options_(std::move(options)) {}
  ~LogWatch();
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;

  // Returns whether there is news for a reader at `place`, which advances. The caller counts as a
  // viewer.
  bool TakeNews(const LogChoice& choice, const LogJob& job, LogPlace* place, LogNews* news);
  // Ends readings without viewers; to be called now and then.
  void Sweep();

 private:
  struct Reading {
    LogChoice choice;
    std::string cluster;
    absl::Time began, looked_at;
    absl::Duration again_after;  // with has_problem
    bool has_problem = false;    // about a process
    bool is_told_ended = false;
    uint64_t number = 0;  // unique to its lines
    std::unique_ptr<LogSource> source;
    std::thread thread;
    bool is_stopping = false;
    bool is_over = false;  // its thread is ending
    absl::Time over_at = absl::InfiniteFuture();
    bool is_of_before = false;  // status and lines are those of the previous reading
    absl::Status status;
    std::deque<LogLine> lines;
    uint64_t first = 0;    // the number of the first of `lines`
    uint64_t version = 1;  // increases with each change
    absl::Time told_at = absl::InfinitePast();
  };

  // Null: the maximum number is being read.
  Reading* Find(const LogChoice& choice, const LogJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDue(const Reading& reading, const LogJob& job, absl::Time now) const;
  bool MakeRoom(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its thread ends later.
  static void End(Reading* reading);
  Reading* Begin(Reading next, const LogJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SweepAt(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read(Reading* reading, const proto::ReadLogs& request);
  void StartOver(Reading* reading) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hear(Reading* reading, const proto::LogLines& lines);
  void Add(LogLine line, Reading* reading) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  absl::Mutex mutex_;
  std::list<Reading> readings_ ABSL_GUARDED_BY(mutex_);
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_LOG_WATCH_H_
