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

// The highest attempt of every daemon process that has registered, so that a copy of an earlier
// registration is known as one, also long after that process and after the coordinator's restart.
// Bounded: the process that registered longest ago is forgotten first. One owner.
class SeenRegistrations {
 public:
  // More than the daemons that a coordinator remembers, several times.
  static constexpr size_t kMax = 16384;
  struct Entry {
    uint64_t daemon_id = 0;
    uint32_t attempt = 0;
  };

  explicit SeenRegistrations(size_t max = kMax) : max_(max) {}

  // Takes in what the store held, the oldest first. REQUIRES: nothing was noted before.
  void Restore(const std::vector<Entry>& entries);
  // Returns 0 when no attempt of the process is known.
  uint32_t NewestAttempt(uint64_t daemon_id) const;
  void Note(uint64_t daemon_id, uint32_t attempt);
  // Returns what the store does not have yet, the oldest first; until Saved.
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

// One connection of a daemon, from its start to its end; never used again.
using SessionId = Id<struct SessionIdTag, uint64_t>;

// Returns `at` moved forward by a gap that ends now, but not past now; infinite times stay.
absl::Time Excused(absl::Time at, absl::Duration gap, absl::Time now);

// A daemon that has registered at some time. Its name is its identity; `daemon_id` tells one
// process of that name from the next.
struct Daemon {
  proto::Register registration;
  SessionId session;   // 0: not connected
  uint64_t order = 0;  // of first registration
  bool alive = false;
  absl::Time heard_at;
  proto::Heartbeat report;  // the newest; resources and refusals only
  absl::Time disconnected_at = absl::InfiniteFuture();
  bool has_ended = false;  // the process, for all that is known
};

// Checks that a coordinator takes in daemons with this version of the protocol: "it", "this
// strata". Errors: FailedPrecondition, and what to install where.
absl::Status CheckProtocol(const char* who, uint32_t version);

// Returns how many ranks may compute on the worker's GPUs at once.
uint32_t CountGpuSlots(const proto::Register& registration);

// Knows who belongs to the cluster and who is alive. A pure state machine: time comes in with the
// calls.
class Membership {
 public:
  struct Options {
    // A daemon that says nothing for so long is lost.
    absl::Duration dead_after = absl::Seconds(5);
    // A daemon whose connection has ended is lost unless it registers again in this time.
    absl::Duration reconnect_grace = absl::Seconds(2);
  };
  // A daemon that was alive and is no more.
  struct Lost {
    std::string name;
    proto::Role role;
    std::string why;
    SessionId session;  // to be closed; 0: none
  };
  struct Joined {
    bool returned = false;   // the same process as before
    SessionId replaced;      // its former connection, to be closed; 0: none
    std::vector<Lost> lost;  // the process that had the name before
  };

  Membership(Options options, std::string cluster_id);

  // Takes a daemon in. Errors, each with the reason for its user: FailedPrecondition (protocol
  // version, cluster, a name in use, what is missing or more than there may be), AlreadyExists (a
  // copy of a registration that was seen before; nothing changes for the daemon that it is a copy
  // of).
  absl::StatusOr<Joined> Register(SessionId session, const proto::Register& registration,
                                  absl::Time now);
  // Returns the name of the daemon on `session`, which was heard now; empty when none has
  // registered on it.
  std::string Heard(SessionId session, absl::Time now);
  // Keeps what the daemon says of itself; no more of it than fits. REQUIRES: it has registered.
  void Report(const std::string& name, const proto::Heartbeat& heartbeat);
  // Returns whose connection has ended; null: nobody's.
  const Daemon* Disconnected(SessionId session, absl::Time now);
  // The process of this id, which is not connected, is known to have ended: it is not waited for.
  void Ended(const std::string& name, uint64_t daemon_id);
  // The caller slept through the last `gap` and could hear nothing: nobody was silent or away then.
  void Excuse(absl::Duration gap, absl::Time now);
  // Returns who is lost by now; each is told once.
  std::vector<Lost> Tick(absl::Time now);

  // The registrations of all daemons there ever were, for the store.
  SeenRegistrations& seen() { return seen_; }
  // Returns null when the daemon is unknown.
  const Daemon* Find(const std::string& name) const;
  // Daemons that take nothing new, by name, whether they are there or not.
  void SetDraining(std::set<std::string> names) { draining_ = std::move(names); }
  const std::set<std::string>& draining() const { return draining_; }
  // The same of one process, which is about to end: until another one has its name.
  void SetLeaving(const std::string& name);
  // Both of these, and a worker that only stands in.
  bool IsDraining(const std::string& name) const;
  // A worker that takes nodes of others that have died, where no other one has room, and nothing
  // else (Register.stands_in); not one that is drained, or about to end.
  bool StandsIn(const std::string& name) const;
  // "worker w2 is being drained", "worker w9 only stands in". REQUIRES: a worker that is draining.
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
  std::map<SessionId, std::string> sessions_;  // live ones
  std::set<std::string> draining_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_MEMBERS_MEMBERSHIP_H_
