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

// When to refresh a lease, and how long its holder may rely on it. etcd counts the TTL from the
// arrival of a refresh; the holder counts from before sending it, and stops a sixth of the TTL
// earlier. So clock rates may differ by up to a sixth without the holder relying on it for too
// long.
//
// Times are of a clock that never goes back. Pure.
class LeaseTiming {
 public:
  static constexpr int kRefreshes = 3;  // per TTL
  static constexpr int kMargin = 6;     // safety margin, as a divisor of the TTL

  // `sent`: when the request was sent for which etcd granted `ttl`.
  LeaseTiming(absl::Duration ttl, absl::Time sent) { Refreshed(ttl, sent); }

  void Refreshed(absl::Duration ttl, absl::Time sent) {
    ttl_ = ttl;
    end_ = sent + ttl - ttl / kMargin;
    next_refresh_ = sent + ttl / kRefreshes;
  }
  // A refresh was not answered: the next one comes soon.
  void Failed(absl::Time now) { next_refresh_ = now + ttl_ / 30; }

  absl::Time next_refresh() const { return next_refresh_; }
  // Returns how long a refresh sent now may take, leaving time for another.
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

// One term of leading a cluster. Numbers are unique and increase.
struct Leadership {
  std::string cluster;
  int64_t create_revision = 0;  // of the leader's key
};

// Leads a cluster once: waits until nobody does, leads, and is deposed at the latest when its lease
// is no longer refreshed. The leader's key holds the leader's address and disappears with its
// lease. leads() may be wrong if its host sleeps: a change that must not happen twice has to
// compare the leader's key (FencedWriter).
//
// Threads: any; it has one of its own.
class LeaderLease {
 public:
  struct Options {
    std::string cluster;
    std::string address;                    // where daemons and commands reach this coordinator
    absl::Duration ttl = absl::Seconds(3);  // time after a leader's death until another one may
                                            // lead
    // Called once, on the lease's thread, when the lead is lost. It must not block for long, nor
    // destroy the lease. The destructor does not call it.
    std::function<void(const absl::Status& why)> on_deposed;
  };
  // Starts waiting. Errors: InvalidArgument (names), Unavailable (etcd does not answer).
  static absl::StatusOr<std::unique_ptr<LeaderLease>> Start(std::shared_ptr<EtcdClient> client,
                                                            Options options);
  // Gives up leadership or candidacy: another one leads at once.
  ~LeaderLease();
  LeaderLease(const LeaderLease&) = delete;
  LeaderLease& operator=(const LeaderLease&) = delete;

  // Waits until it leads. Errors: DeadlineExceeded (not in time) naming the leader,
  // FailedPrecondition (its term is over).
  absl::StatusOr<Leadership> AwaitElection(absl::Duration at_most);
  // Returns whether it leads now, by its own clock.
  bool leads() const;
  // Asks etcd at once whether it still leads, because somebody knows of a later leader.
  void Doubt();
  // Returns the leader's address when etcd was last asked; empty: nobody led.
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
  // Returns nullopt if another coordinator leads.
  absl::StatusOr<std::optional<Held>> Campaign(const std::stop_token& stop);
  absl::StatusOr<std::optional<Held>> Take(const std::stop_token& stop);
  void SetLeader(const std::string& address);
  // Holds the lead; returns why it was lost.
  absl::Status Hold(Held& held, const std::stop_token& stop);
  absl::Status Refresh(Held& held, const std::stop_token& stop);
  // Errors: FailedPrecondition: the key is gone or belongs to another coordinator.
  absl::Status CheckKey(const Held& held, const std::stop_token& stop);
  // Wakes up early if the lead is doubted. Returns false when it must stop.
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
  absl::Time end_ ABSL_GUARDED_BY(mutex_);  // until when it may rely on its lead
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last member: it uses the others
};

// Returns the address of the coordinator that leads a cluster. Errors: NotFound (none does), those
// of EtcdClient.
absl::StatusOr<std::string> ReadLeader(EtcdClient& client, const std::string& cluster);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_LEADER_LEASE_H_
