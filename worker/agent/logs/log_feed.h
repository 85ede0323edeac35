#ifndef STRATA_WORKER_AGENT_LOGS_LOG_FEED_H_
#define STRATA_WORKER_AGENT_LOGS_LOG_FEED_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/control/calls/logs_offer.h"
#include "proto/logs.pb.h"
#include "worker/agent/logs/log_folders.h"
#include "worker/agent/logs/log_reader.h"

namespace strata::worker {

// What a worker reads of its jobs' logs for the coordinator, which says what is wanted and how many
// bytes may be under way: whoever looks at logs and takes none has the reading wait.
//
// Threads: one.
class LogFeed final : public control::LogsSource {
 public:
  // Bytes of one part's lines.
  static constexpr size_t kPartBytesMax = 64 << 10;
  // What a part takes off the credit besides its lines; see server::LogReadings::kPartBytes.
  static constexpr uint32_t kPartCost = 256;
  // Logs that are open at once; WorkerDescriptors counts with them.
  static constexpr size_t kOpenLogsMax = 256;

  // `folders` outlives the feed.
  explicit LogFeed(const LogFolders* folders) : folders_(folders) {}

  void OnWanted(const proto::LogWanted& wanted) override;
  Step Next() override;
  bool Watches() const override;

 private:
  struct Log {
    proto::LogProcess process;
    std::unique_ptr<LogReader> reader = nullptr;  // null: not opened yet
    bool came_late = false;  // it was not there when the reading began: all of it is new
    bool ended = false;
  };
  struct Reading {
    proto::LogsBegin begin;
    uint64_t credit = 0;
    bool job_ended = false;
    std::vector<Log> logs;  // those that have not ended
    size_t next = 0;        // of them
  };

  void Begin(uint64_t id, const proto::LogsBegin& begin);
  // Reads the reading's next log. `id`: the reading.
  Step Read(uint64_t id, Reading* reading);
  Step ReadLog(uint64_t id, Reading* reading, Log* log);
  size_t OpenLogs() const;

  const LogFolders* const folders_;
  std::map<uint64_t, Reading> readings_;
  uint64_t next_ = 0;  // the reading whose turn it is, or the one after it
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGS_LOG_FEED_H_
