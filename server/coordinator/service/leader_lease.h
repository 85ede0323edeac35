#ifndef STRATA_SERVER_COORDINATOR_SERVICE_LEADER_LEASE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_LEADER_LEASE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"

namespace strata::server {

// When to refresh a lease, and until when its holder may believe in it. etcd counts the TTL
// from a refresh's arrival, the holder from before it was sent, and it stops a sixth of the TTL
// earlier: clocks that run at rates up to a sixth apart do not make it believe for too long.
//
// Times are of a clock that never goes back. Pure.
class LeaseTiming {
 public:
  static constexpr int kRefreshes = 3;  // in one TTL
  static constexpr int kMargin = 6;     // of the TTL, which the holder gives away

  // `sent`: when the request was sent that etcd granted `ttl` for.
  LeaseTiming(absl::Duration ttl, absl::Time sent) { Refreshed(ttl, sent); }

  void Refreshed(absl::Duration ttl, absl::Time sent) {
    ttl_ = ttl;
    end_ = sent + ttl - ttl / kMargin;
    next_refresh_ = sent + ttl / kRefreshes;
  }
  // A refresh was not answered: the next one comes soon.
  void Failed(absl::Time now) { next_refresh_ = now + ttl_ / 30; }

  absl::Time next_refresh() const { return next_refresh_; }
  // How long a refresh that is sent now may take, so that there is time for another.
  absl::Duration PatienceAt(absl::Time now) const {
    return std::max(absl::ZeroDuration(), std::min(ttl_ / kRefreshes, end_ - now));
  }
  absl::Time end() const { return end_; }
  bool IsOver(absl::Time now) const { return now >= end_; }

 private:
  absl::Duration ttl_;
  absl::Time end_;
  absl::Time next_refresh_;
};

// One time of leading a cluster. No two have the same number, and a later one has a higher one.
struct Leadership {
  std::string cluster;
  int64_t create_revision = 0;  // of the leader's key
};

// Leads a cluster once: waits until nobody does, leads, and is deposed at the latest when its lease
// is no longer refreshed. The leader's key holds the leader's address and goes away with its lease.
// A leader by this class's word may be wrong when its host sleeps: what must not happen
// twice is a change that compares the leader's key (FencedWriter).
//
// Threads: any; it has one of its own.
class LeaderLease {
 public:
  struct Options {
    std::string cluster;
    std::string address;                    // under which daemons and commands reach this one
    absl::Duration ttl = absl::Seconds(3);  // after a leader's death, until another one may lead
    // Called once, by the lease's thread, when it leads no longer. It must not block for long, and
    // not destroy the lease. Not called by the destructor.
    std::function<void(const absl::Status& why)> on_deposed;
  };
  // Begins to wait. Errors: InvalidArgument (names), Unavailable (etcd does not answer).
  static absl::StatusOr<std::unique_ptr<LeaderLease>> Start(std::shared_ptr<EtcdClient> client,
                                                            Options options);
  // Gives up leading, or waiting to: another one leads at once.
  ~LeaderLease();
  LeaderLease(const LeaderLease&) = delete;
  LeaderLease& operator=(const LeaderLease&) = delete;

  // Waits until it leads. Errors: DeadlineExceeded naming who does (not in time),
  // FailedPrecondition (it has led already).
  absl::StatusOr<Leadership> AwaitElection(absl::Duration at_most);
  // Returns whether it leads now, by its own clock.
  bool leads() const;
  // Asks etcd at once whether it still leads: somebody has heard of a later leader.
  void Doubt();
  // Returns the address of who led when etcd was last asked; empty: nobody did.
  std::string leader() const;

 private:
  enum class Stage { kWaits, kLeads, kOver };
  struct Held {
    int64_t lease = 0;
    Leadership leadership;
    LeaseTiming timing;
  };

  LeaderLease(std::shared_ptr<EtcdClient> client, Options options);
  void Run(const std::stop_token& stop);
  // Returns nothing where another one leads.
  absl::StatusOr<std::optional<Held>> Campaign(const std::stop_token& stop);
  absl::StatusOr<std::optional<Held>> Take(const std::stop_token& stop);
  void SetLeader(const std::string& address);
  // Returns why it leads no longer.
  absl::Status Hold(Held& held, const std::stop_token& stop);
  absl::Status Refresh(Held& held, const std::stop_token& stop);
  // Errors: FailedPrecondition: the key is another one's, or gone.
  absl::Status CheckKey(const Held& held, const std::stop_token& stop);
  // Wakes up early where it is doubted. Returns false when it is to stop.
  bool SleepUntil(absl::Time until);

  const std::shared_ptr<EtcdClient> client_;
  const Options options_;
  const EtcdKeys keys_;
  const RealClock clock_;
  mutable absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_doubted_ ABSL_GUARDED_BY(mutex_) = false;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kWaits;
  Leadership leadership_ ABSL_GUARDED_BY(mutex_);
  absl::Time end_ ABSL_GUARDED_BY(mutex_);  // of the belief to lead
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // the last: it uses all of it
};

// Returns the address of the coordinator that leads a cluster. Errors: NotFound (none does), those
// of EtcdClient.
absl::StatusOr<std::string> ReadLeader(EtcdClient& client, const std::string& cluster);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_LEADER_LEASE_H_
