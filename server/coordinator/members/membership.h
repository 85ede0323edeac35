#ifndef STRATA_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_
#define STRATA_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/control.pb.h"

namespace strata::server {

// The highest attempt of every daemon process that has registered. It identifies copies of earlier
// registrations, even long after the process ended and after a restart of the coordinator. Bounded:
// the process that registered longest ago is forgotten first. One owner.
class SeenRegistrations {
 public:
  // Several times the number of daemons that a coordinator remembers.
  static constexpr size_t kMax = 16384;
  struct Entry {
    uint64_t daemon_id = 0;
    uint32_t attempt = 0;
  };

  explicit SeenRegistrations(size_t max = kMax) : max_(max) {}

  // Restores the stored entries, oldest first. REQUIRES: nothing was noted before.
  void Restore(const std::vector<Entry>& entries);
  // Returns 0 if no attempt of the process is known.
  uint32_t NewestAttempt(uint64_t daemon_id) const;
  void Note(uint64_t daemon_id, uint32_t attempt);
  // Returns the entries that the store lacks, oldest first, until Saved.
  std::vector<Entry> Unsaved() const;
  void Saved() { unsaved_.clear(); }

 private:
  struct Seen {
    uint32_t attempt = 0;
    uint64_t order = 0;
  };

  const size_t max_;
  uint64_t next_order_ = 1;
  std::map<uint64_t, Seen> seen_;           // by daemon_id
  std::map<uint64_t, uint64_t> daemon_of_;  // by order
  std::set<uint64_t> unsaved_;              // orders
};

// One connection of a daemon; ids are never reused.
using SessionId = Id<struct SessionIdTag, uint64_t>;

// Returns `at` moved forward by a gap that ends now, but not past now; infinite times stay.
absl::Time Excused(absl::Time at, absl::Duration gap, absl::Time now);

// A daemon that has registered at some time. Its name is its identity; `daemon_id` distinguishes
// the processes that have had that name.
struct Daemon {
  proto::Register registration;
  SessionId session;   // 0: not connected
  uint64_t order = 0;  // of the first registration
  bool alive = false;
  absl::Time heard_at;
  proto::Heartbeat report;  // the newest; only resources and refusals
  absl::Time disconnected_at = absl::InfiniteFuture();
  bool has_ended = false;  // the process is believed to have ended
};

// Checks that the coordinator accepts daemons of this protocol version. `who`: "it", "this strata".
// Errors: FailedPrecondition, with what to install where.
absl::Status CheckProtocol(const char* who, uint32_t version);

// Returns how many ranks may compute on the worker's GPUs at once.
uint32_t CountGpuSlots(const proto::Register& registration);

// Knows who belongs to the cluster and who is alive. A pure state machine: time comes in with the
// calls.
class Membership {
 public:
  struct Options {
    // A daemon that is silent for this long is lost.
    absl::Duration dead_after = absl::Seconds(5);
    // A daemon whose connection ended is lost unless it registers again within this time.
    absl::Duration reconnect_grace = absl::Seconds(2);
  };
  // A daemon that was alive and is lost.
  struct Lost {
    std::string name;
    proto::Role role;
    std::string why;
    SessionId session;  // to be closed; 0: none
  };
  struct Joined {
    bool returned = false;   // it is the same process as before
    SessionId replaced;      // its former connection, to be closed; 0: none
    std::vector<Lost> lost;  // the process that had the name before
  };

  Membership(Options options, std::string cluster_id);

  // Registers a daemon. Errors, each with the reason for the user: FailedPrecondition (protocol
  // version, cluster, name in use, missing fields, limits exceeded), AlreadyExists (a copy of an
  // earlier registration; the registered daemon is unaffected).
  absl::StatusOr<Joined> Register(SessionId session, const proto::Register& registration,
                                  absl::Time now);
  // Notes that `session` was heard now. Returns its daemon's name; empty if none has registered on
  // it.
  std::string Heard(SessionId session, absl::Time now);
  // Keeps the daemon's report, truncated to the limits. REQUIRES: it has registered.
  void Report(const std::string& name, const proto::Heartbeat& heartbeat);
  // Returns the daemon whose connection ended; null: none.
  const Daemon* Disconnected(SessionId session, absl::Time now);
  // The process of this id, which is not connected, has ended: stops waiting for it.
  void Ended(const std::string& name, uint64_t daemon_id);
  // The caller was paused for the last `gap` and could hear nothing: nobody counts as silent or
  // absent for that time.
  void Excuse(absl::Duration gap, absl::Time now);
  // Returns the daemons that are lost by now; each is returned once.
  std::vector<Lost> Tick(absl::Time now);

  // The registrations of all daemons so far, for the store.
  SeenRegistrations& seen() { return seen_; }
  // Returns null if the daemon is unknown.
  const Daemon* Find(const std::string& name) const;
  // Daemons that take nothing new, by name, whether connected or not.
  void SetDraining(std::set<std::string> names) { draining_ = std::move(names); }
  const std::set<std::string>& draining() const { return draining_; }
  // The same for one process, which is about to stop; ends when another process registers under its
  // name.
  void SetLeaving(const std::string& name);
  // Drained, about to stop, or a stand-in.
  bool IsDraining(const std::string& name) const;
  // Returns whether the worker is a stand-in: it takes only nodes that died elsewhere and for which
  // no other worker has room (Register.stands_in). False if it is drained or about to stop.
  bool StandsIn(const std::string& name) const;
  // "worker w2 is being drained", "worker w9 only stands in". REQUIRES: the worker is draining.
  std::string WhyDraining(const std::string& worker) const;
  // Both return daemons in the order of their first registration.
  std::vector<const Daemon*> All() const;
  std::vector<const Daemon*> Alive(proto::Role role) const;

 private:
  void MarkLost(Daemon* daemon, std::string why, std::vector<Lost>* lost);
  void ForgetOldest();

  const Options options_;
  const std::string cluster_id_;
  uint64_t next_order_ = 1;
  SeenRegistrations seen_;
  std::map<std::string, Daemon> daemons_;      // by name
  std::map<SessionId, std::string> sessions_;  // connected daemons
  std::set<std::string> draining_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_
