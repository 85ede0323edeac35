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

// Returns how many slots of the daemon are held by running jobs. A rank on a GPU holds one of each
// kind.
uint32_t SlotsHeldOn(const std::string& daemon, SlotKind kind,
                     const std::map<JobId, JobEntry>& jobs);

// Returns the name under which `entry` may appear in the reason of `reader`, which users of its
// namespace see: "job 3", "a job of another namespace".
std::string NameFor(const JobEntry& reader, const JobEntry& entry);

// Describes for `reader` who holds slots: "job 3 holds 2, job 4 holds 1".
std::string DescribeHolders(SlotKind kind, const JobEntry& reader,
                            const std::map<JobId, JobEntry>& jobs);

// Returns the rights that decide which of a user's queued jobs may start now.
using SlotsOfUser = std::function<QueueRights(const std::string& user)>;

// Queued jobs that one user may have, and the bytes that they may take in the store.
inline constexpr size_t kQueuedPerUserMax = 1000;
inline constexpr size_t kQueuedBytesPerUserMax = 64 << 20;
// Ended jobs that are kept per user; older ones are forgotten, as with `ended_max`.
inline constexpr size_t kEndedPerUserMax = 250;
inline constexpr size_t kEndedBytesPerUserMax = 64 << 20;

// Checks that the user may queue one more job. An empty user is the coordinator's, without a limit
// of its own. Errors: ResourceExhausted.
absl::Status CheckQueueHasRoom(const std::string& user, size_t queued_max,
                               const std::map<JobId, JobEntry>& jobs,
                               size_t per_user_max = kQueuedPerUserMax,
                               size_t bytes_per_user_max = kQueuedBytesPerUserMax);

// Returns the ended jobs to forget, oldest first: those beyond `ended_max` in total, and those
// beyond each user's limit (which the coordinator's user does not have).
std::vector<JobId> EndedTooMany(const std::map<JobId, JobEntry>& jobs, size_t ended_max,
                                size_t per_user_max = kEndedPerUserMax,
                                size_t bytes_per_user_max = kEndedBytesPerUserMax);

// Decides which jobs wait for others of the same user, or for their user's rights. For one pass
// over the queue: asks for each user's rights once, and counts running jobs once.
class UserSlots {
 public:
  // `rights_of` may be empty: no limits. Both outlive this object.
  UserSlots(const SlotsOfUser& rights_of, const std::map<JobId, JobEntry>& jobs)
      : rights_of_(rights_of), jobs_(jobs) {}

  // Returns why a queued job waits; empty: it need not.
  std::string WhyWaits(const JobEntry& entry);
  // Returns whether a running job may take more slots.
  bool MayTakeMore(const JobEntry& entry, uint32_t ranks);
  // `ranks` ranks of a job have started.
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
