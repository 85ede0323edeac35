#ifndef STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/members/job_owner.h"

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

// The rights that decide which of a user's jobs may leave the queue now.
using SlotsOfUser = std::function<QueueRights(const std::string& user)>;

// Jobs that one user may have in the queue, and the bytes that these take in the store.
inline constexpr size_t kQueuedPerUserMax = 1000;
inline constexpr size_t kQueuedBytesPerUserMax = 64 << 20;
// The same of a user's jobs that have ended: older ones are forgotten, as `ended_max` does.
inline constexpr size_t kEndedPerUserMax = 250;
inline constexpr size_t kEndedBytesPerUserMax = 64 << 20;

// Checks that one more job of the user may wait; empty: the coordinator's, who has no limit of
// their own. Errors: ResourceExhausted.
absl::Status CheckQueueHasRoom(const std::string& user, size_t queued_max,
                               const std::map<JobId, JobEntry>& jobs,
                               size_t per_user_max = kQueuedPerUserMax,
                               size_t bytes_per_user_max = kQueuedBytesPerUserMax);

// The ended jobs to forget, the oldest first: those beyond `ended_max` of all, and
// beyond what each user may have, but for the coordinator's.
std::vector<JobId> EndedTooMany(const std::map<JobId, JobEntry>& jobs, size_t ended_max,
                                size_t per_user_max = kEndedPerUserMax,
                                size_t bytes_per_user_max = kEndedBytesPerUserMax);

// Which jobs wait for others of the same user, or for their user's rights. For one look at
// the queue: it asks for each user's rights once, and counts running jobs once.
class UserSlots {
 public:
  // `rights_of` may be empty: nobody has a limit. Both outlive it.
  UserSlots(const SlotsOfUser& rights_of, const std::map<JobId, JobEntry>& jobs)
      : rights_of_(rights_of), jobs_(jobs) {}

  // Why a queued job waits, in words; empty: it need not.
  std::string WhyWaits(const JobEntry& entry);
  // Returns whether a running job may take slots besides those that it has.
  bool MayTakeMore(const JobEntry& entry, uint32_t ranks);
  // So many ranks of a job run from now on.
  void OnStarted(const JobEntry& entry, uint32_t ranks);

 private:
  struct User {
    QueueRights rights;
    uint64_t used = 0;
  };
  User& Find(const std::string& user);

  const SlotsOfUser& rights_of_;
  const std::map<JobId, JobEntry>& jobs_;
  std::map<std::string, User> users_;
  bool is_counted_ = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_SLOT_USE_H_
