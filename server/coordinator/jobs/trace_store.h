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

// The traces of processes of jobs, until the command line asks for it. In memory only, of
// bounded size: where there is no room, traces of ended jobs go, those of the lowest numbers first,
// and where that is not enough, what comes is left out and counted (again each time that it is
// said: nothing is remembered of it). One owner.
class TraceStore {
 public:
  // Serialised TraceBatches.
  using Batches = std::vector<std::shared_ptr<const std::string>>;
  static constexpr size_t kJobsMax = 64;

  // `has_ended` tells whether nobody trains the job any more.
  explicit TraceStore(std::function<bool(JobId)> has_ended, size_t bytes_max = kTraceBytesMax)
      : has_ended_(std::move(has_ended)), bytes_max_(bytes_max) {}

  // Holds each event once, however often it comes. Its host is the daemon that it came from.
  void Add(const proto::TraceBatch& batch);
  // Returns what is held of the job; where something is not, the last batch says how much.
  Batches Find(JobId job) const;
  // Returns whether the daemon has said all that there is to say of the job.
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

  // Returns false when that is more than there is, or than ended jobs but `keep` hold.
  bool MakeRoom(size_t bytes, JobId keep);
  // Drops an ended job's events. Returns false when there is none but `keep`.
  bool LetGo(JobId keep);
  void ForgetJobs(JobId keep);

  const std::function<bool(JobId)> has_ended_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  std::map<JobId, Trace> traces_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_TRACE_STORE_H_
