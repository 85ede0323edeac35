#ifndef STRATA_SERVER_COORDINATOR_JOBS_TRACE_STORE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_TRACE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/os/limits.h"
#include "proto/processes.pb.h"

namespace strata::server {

// Keeps traces of jobs' processes until the command line asks for them. Held in memory, of bounded
// size: if space runs out, traces of ended jobs are dropped, lowest job ids first; after that,
// incoming traces are dropped and counted (again on each repeat: nothing of them is remembered).
// One owner.
class TraceStore {
 public:
  // Serialized TraceBatches.
  using Batches = std::vector<std::shared_ptr<const std::string>>;
  static constexpr size_t kJobsMax = 64;

  // `has_ended` returns whether the job has ended.
  explicit TraceStore(std::function<bool(JobId)> has_ended, size_t bytes_max = kTraceBytesMax)
      : has_ended_(std::move(has_ended)), bytes_max_(bytes_max) {}

  // Adds the batch's events; a repeated batch is held once. Its host is the daemon that it came
  // from.
  void Add(const proto::TraceBatch& batch);
  // Returns the job's batches. If events were dropped, the last batch says how many.
  Batches Find(JobId job) const;
  // Returns whether the daemon has sent its whole trace of the job.
  bool HasAllFrom(JobId job, const std::string& daemon) const;

  size_t bytes() const { return bytes_; }
  size_t bytes_max() const { return bytes_max_; }

 private:
  struct Trace {
    Batches batches;
    std::set<uint64_t> seen;  // checksums of `batches`
    std::set<std::string> complete;
    size_t bytes = 0;
    uint64_t events = 0;  // in `batches`
    uint64_t left_out = 0;
  };

  // Makes room by dropping ended jobs other than `keep`. Returns false if that is not enough.
  bool MakeRoom(size_t bytes, JobId keep);
  // Drops one ended job's events. Returns false if there is none besides `keep`.
  bool LetGo(JobId keep);
  void ForgetJobs(JobId keep);

  const std::function<bool(JobId)> has_ended_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  std::map<JobId, Trace> traces_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_TRACE_STORE_H_
