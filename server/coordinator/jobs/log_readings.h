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

// The readers of logs, and what workers are told of them. A worker may have as many bytes of lines
// under way as it has credit, and gets credit back only for what the user has taken, so that one
// who takes nothing holds kBytesPerReadingMax here and has the workers wait.
//
// Pure. Threads: one at a time.
class LogReadings {
 public:
  static constexpr size_t kReadingsPerUserMax = 64;
  static constexpr size_t kReadingsMax = 1024;
  static constexpr uint32_t kBytesPerReadingMax = 256 << 10;
  // Bytes of credit that a part costs besides its lines: many short ones take room, too.
  static constexpr uint32_t kPartBytes = 256;
  // Credit of each worker, however many there are: a line always fits.
  static constexpr uint32_t kCreditBytesMin = 32 << 10;

  // The logs that one worker reads.
  struct Share {
    std::string worker;       // its name
    std::string where;        // "worker w2 (host)"
    std::string cannot = {};  // where it offers nothing: why, of itself; empty: it is not there
    proto::LogsBegin begin;   // without credit
  };
  struct ToWorker {
    uint64_t stream = 0;
    proto::LogWanted wanted;
  };

  // A worker offers to read. A later stream of the same worker takes the place of an earlier one.
  void OnOffered(uint64_t stream, const std::string& worker);
  void OnStreamGone(uint64_t stream);
  // A part for a reading that has ended was under way, and is dropped. One that sends what it
  // was not asked for, or more than it may, is asked no more in this reading.
  void OnPart(uint64_t stream, proto::LogPart part);

  // A user looks at logs. Returns the reading; workers that are not there are errors in it.
  // Errors: ResourceExhausted: too many readings of this user, or of all.
  absl::StatusOr<uint64_t> Begin(const std::string& user, const std::vector<Share>& shares);
  // Returns what to show next; nullopt: nothing has come.
  std::optional<proto::LogLines> Take(uint64_t reading);
  // Returns whether Take has something, or IsDone.
  bool HasNews(uint64_t reading) const;
  // Nothing comes any more, and all was taken.
  bool IsDone(uint64_t reading) const;
  // A follower reads to the end of what is there.
  void OnJobEnded(uint64_t reading);
  void End(uint64_t reading);

  // Returns what to send since the last call, in order.
  std::vector<ToWorker> Outgoing() { return std::exchange(outgoing_, {}); }

 private:
  struct Queued {
    proto::LogLines lines;
    size_t share = 0;
  };
  struct OpenShare {
    uint64_t stream = 0;  // 0: nothing comes from it any more
    std::string where;
    std::vector<proto::LogProcess> processes;  // that have not ended
    uint32_t credit = 0;                       // that the worker has
    uint32_t owed = 0;                         // taken by the user, and not given back yet
    uint32_t queued = 0;                       // bytes that the user has not taken
  };
  struct Reading {
    std::string user;
    std::vector<OpenShare> shares;
    std::deque<Queued> queue;
    uint32_t credit = 0;  // of each share at first
  };

  void Send(uint64_t stream, uint64_t reading, proto::LogWanted wanted);
  // Ends all processes of the share with this error; `why`: after where it is.
  static void Fail(Reading* reading, size_t share, const std::string& why);
  static void FailWith(Reading* reading, size_t share, const std::string& text);

  uint64_t next_reading_ = 1;
  std::map<uint64_t, Reading> readings_;
  std::map<std::string, uint64_t> streams_;  // by worker
  std::vector<ToWorker> outgoing_;
};

// "rank 3", "aggregator of node 1".
std::string TextOf(const proto::LogProcess& process);

// A job whose logs somebody reads, as the coordinator knows it.
struct LogScene {
  proto::JobStatus job;
  proto::ListNodesReply daemons;
  bool wants_daemons = true;  // else they are left out, as they take a while
};

// Which worker is to read which of the logs that are wanted: each is where the process runs, or ran
// last. Errors: FailedPrecondition: the job has not begun; InvalidArgument: it has no such process.
absl::StatusOr<std::vector<LogReadings::Share>> SharesOf(const LogScene& scene,
                                                         const proto::ReadLogs& wanted);

// Where a job's nodes are while somebody follows their logs, who is shown those of the workers that
// had the nodes at first. Pure.
class LogPlaces {
 public:
  LogPlaces(const proto::JobStatus& job, const proto::ReadLogs& wanted);
  // Returns a line for each node that continues elsewhere, or has joined, since the last call.
  std::vector<std::string> News(const proto::JobStatus& job);

 private:
  bool IsWanted(const proto::JobNodeStatus& node) const;

  const proto::ReadLogs wanted_;
  std::map<uint32_t, std::string> workers_;  // by node
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_LOG_READINGS_H_
