#ifndef STRATA_WORKER_AGENT_LOG_FEED_H_
#define STRATA_WORKER_AGENT_LOG_FEED_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/control/logs_offer.h"
#include "common/os/descriptors.h"
#include "proto/logs.pb.h"
#include "worker/agent/log_reader.h"

namespace strata::worker {

// The locations of jobs' logs on this host.
class LogFolders {
 public:
  virtual ~LogFolders() = default;
  // Returns whether the job may still write its logs.
  virtual bool IsRunning(uint32_t job) const = 0;
  // Returns the run directory of a job; `recorded`: the one in the job's record. Errors, in words
  // that follow "rank 3's log on worker w2: ": NotFound: it has none here, or not yet;
  // FailedPrecondition: another job has had it since, or it is elsewhere.
  virtual absl::StatusOr<std::string> Find(uint32_t job, const std::string& recorded) const = 0;
  // Returns the name of a process's log in the run directory's logs/.
  virtual std::string FileOf(const proto::LogProcess& process) const = 0;
};

// Reads jobs' logs for the coordinator, which requests logs and limits the bytes in flight: a
// reader that takes nothing makes the reading wait.
//
// Threads: one.
class LogFeed final : public control::LogsSource {
 public:
  // Bytes of lines per part.
  static constexpr size_t kPartBytesMax = 64 << 10;
  // Credit that a part costs besides its lines; see server::LogReadings::kPartBytes.
  static constexpr uint32_t kPartCost = 256;

  // `folders` outlives the feed. `open_max`: logs open at once; WorkerDescriptors counts with that.
  explicit LogFeed(const LogFolders* folders, size_t open_max = kOpenLogsMax)
      : folders_(folders), open_max_(open_max) {}

  void OnWanted(const proto::LogWanted& wanted) override;
  Step Next() override;
  bool Watches() const override;

 private:
  struct Log {
    proto::LogProcess process;
    std::unique_ptr<LogReader> reader = nullptr;  // null: not opened yet
    bool came_late = false;  // it did not exist when the reading began: all of it is new
    bool ended = false;
  };
  struct Reading {
    proto::LogsBegin begin;
    uint64_t credit = 0;
    bool job_ended = false;
    std::vector<Log> logs;  // unfinished ones
    size_t next = 0;        // index into them
  };

  void Begin(uint64_t id, const proto::LogsBegin& begin);
  // Reads the reading's next log. `id`: the reading.
  Step Read(uint64_t id, Reading* reading);
  Step ReadLog(uint64_t id, Reading* reading, Log* log);
  size_t OpenLogs() const;

  const LogFolders* const folders_;
  const size_t open_max_;
  std::map<uint64_t, Reading> readings_;
  uint64_t next_ = 0;  // the reading whose turn it is, or the next higher one
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOG_FEED_H_
