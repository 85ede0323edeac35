#ifndef STRATA_SERVER_COORDINATOR_JOBS_LOG_READINGS_H_
#define STRATA_SERVER_COORDINATOR_JOBS_LOG_READINGS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "proto/logs.pb.h"

namespace strata::server {

// The readers of logs, and the requests to workers for them. A worker may have at most its credit
// in bytes of lines under way. Credit is returned only for lines that the user has taken, so a
// reader that takes nothing holds at most kBytesPerReadingMax here and makes the workers wait.
//
// Pure. Threads: one at a time.
class LogReadings {
 public:
  static constexpr size_t kReadingsPerUserMax = 64;
  static constexpr size_t kReadingsMax = 1024;
  static constexpr uint32_t kBytesPerReadingMax = 256 << 10;
  // Credit that a part costs besides its lines, in bytes, because many short parts take room, too.
  static constexpr uint32_t kPartBytes = 256;
  // Credit of each worker, however many there are: enough for any line.
  static constexpr uint32_t kCreditBytesMin = 32 << 10;

  // The logs that one worker reads for a reading.
  struct Share {
    std::string worker;       // worker name
    std::string where;        // "worker w2 (host)"
    std::string cannot = {};  // why the worker can read nothing, by its own account; empty: it is
                              // not connected
    proto::LogsBegin begin;   // the request, without credit
  };
  struct ToWorker {
    uint64_t stream = 0;
    proto::LogWanted wanted;
  };

  // A worker offers to read logs. A later stream of the same worker replaces an earlier one.
  void OnOffered(uint64_t stream, const std::string& worker);
  void OnStreamGone(uint64_t stream);
  // Handles a part from a worker. A part for a reading that has ended is dropped. A worker that
  // sends what was not requested, or more than its credit, is excluded from the reading.
  void OnPart(uint64_t stream, proto::LogPart part);

  // A user starts to read logs. Returns the reading; workers that are not connected appear as
  // errors in it. Errors: ResourceExhausted: too many readings of this user, or in total.
  absl::StatusOr<uint64_t> Begin(const std::string& user, const std::vector<Share>& shares);
  // Returns what to show next; nullopt: nothing yet.
  std::optional<proto::LogLines> Take(uint64_t reading);
  // Returns whether Take has something, or IsDone.
  bool HasNews(uint64_t reading) const;
  // Returns whether nothing more will come and all was taken.
  bool IsDone(uint64_t reading) const;
  // Followers read to the end of the existing logs.
  void OnJobEnded(uint64_t reading);
  void End(uint64_t reading);

  // Returns the messages to send since the last call, in order.
  std::vector<ToWorker> Outgoing() { return std::exchange(outgoing_, {}); }

 private:
  struct Queued {
    proto::LogLines lines;
    size_t share = 0;
  };
  struct OpenShare {
    uint64_t stream = 0;  // 0: nothing more comes from it
    std::string where;
    std::vector<proto::LogProcess> processes;  // that have not ended
    uint32_t credit = 0;                       // credit that the worker has
    uint32_t owed = 0;                         // taken by the user, but not returned to the worker
                                               // yet
    uint32_t queued = 0;                       // bytes that the user has not taken
  };
  struct Reading {
    std::string user;
    std::vector<OpenShare> shares;
    std::deque<Queued> queue;
    uint32_t credit = 0;  // each share's initial credit
  };

  void Send(uint64_t stream, uint64_t reading, proto::LogWanted wanted);
  // Ends all processes of the share with this error; `why` follows the location.
  static void Fail(Reading* reading, size_t share, const std::string& why);
  static void FailWith(Reading* reading, size_t share, const std::string& text);

  uint64_t next_reading_ = 1;
  std::map<uint64_t, Reading> readings_;
  std::map<std::string, uint64_t> streams_;  // by worker
  std::vector<ToWorker> outgoing_;
};

// "rank 3", "aggregator of node 1".
std::string TextOf(const proto::LogProcess& process);

// A job whose logs are being read, as the coordinator knows it.
struct LogScene {
  proto::JobStatus job;
  proto::ListNodesReply daemons;
  bool wants_daemons = true;  // otherwise daemons' logs are left out, as they take a while
};

// Returns which worker is to read which of the requested logs: the one where the process runs, or
// ran last. Errors: FailedPrecondition: the job has not begun; InvalidArgument: it has no such
// process.
absl::StatusOr<std::vector<LogReadings::Share>> SharesOf(const LogScene& scene,
                                                         const proto::ReadLogs& wanted);

// Tracks the nodes of a job whose logs are followed. A follower reads from the workers that had the
// nodes at first. Pure.
class LogPlaces {
 public:
  LogPlaces(const proto::JobStatus& job, const proto::ReadLogs& wanted);
  // Returns a line for each node that has moved or joined since the last call.
  std::vector<std::string> News(const proto::JobStatus& job);

 private:
  bool IsWanted(const proto::JobNodeStatus& node) const;

  const proto::ReadLogs wanted_;
  std::map<uint32_t, std::string> workers_;  // by node
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_LOG_READINGS_H_
