#ifndef STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/ids.h"
#include "server/coordinator/jobs/job_entry.h"

namespace strata::server {

enum class SlotKind { kAny, kGpu };

// Returns how many slots of the daemon running jobs hold. A rank on a GPU holds one of both kinds.
uint32_t SlotsHeldOn(const std::string& daemon, SlotKind kind,
                     const std::map<JobId, JobEntry>& jobs);

// A job as `reader`, whose reason it stands in, may show it to those of its own namespace: "job 3",
// "a job of another namespace".
std::string NameFor(const JobEntry& reader, const JobEntry& entry);

// Returns who holds slots, in words for `reader`: "job 3 holds 2, job 4 holds 1".
std::string DescribeHolders(SlotKind kind, const JobEntry& reader,
                            const std::map<JobId, JobEntry>& jobs);

// How many ranks a user's running jobs may have at once; 0: no limit.
using SlotsOfUser = std::function<uint32_t(const std::string& user)>;

// Which queued jobs wait for others of the same user. For one look at the queue: it asks for each
// user's limit once, and counts running jobs once.
class UserSlots {
 public:
  // `limit_of` may be empty: nobody has a limit. Both outlive it.
  UserSlots(const SlotsOfUser& limit_of, const std::map<JobId, JobEntry>& jobs)
      : limit_of_(limit_of), jobs_(jobs) {}

  // Why a queued job waits, in words; empty: it need not.
  std::string WhyWaits(const JobEntry& entry);
  // A job of the queue runs from now on.
  void OnStarted(const JobEntry& entry);

 private:
  struct User {
    uint32_t limit = 0;
    uint64_t used = 0;
  };
  User& Find(const std::string& user);

  const SlotsOfUser& limit_of_;
  const std::map<JobId, JobEntry>& jobs_;
  std::map<std::string, User> users_;
  bool is_counted_ = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_
