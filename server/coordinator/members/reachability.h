#ifndef STRATA_SERVER_COORDINATOR_MEMBERS_REACHABILITY_H_
#define STRATA_SERVER_COORDINATOR_MEMBERS_REACHABILITY_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

// Knows which worker can connect to which shard. When a worker or server joins, every live worker
// is asked to try every live server's addresses; failed tries are repeated often, successful ones
// now and then. A pure state machine over the membership. One owner.
class Reachability {
 public:
  struct Options {
    // Interval after a failed try, so that a repaired link is noticed.
    absl::Duration retry_after = absl::Seconds(2);
    // Interval after a successful try.
    absl::Duration repeat_after = absl::Seconds(30);
    // How long to wait for a worker's first answer; after that its reachability counts as unknown.
    absl::Duration answer_patience = absl::Seconds(5);
  };
  // The addresses that one worker is asked to try.
  struct Try {
    SessionId session;
    proto::TryPeers peers;
  };
  enum class State { kReached, kTrying, kFailed };
  struct Verdict {
    State state = State::kReached;  // also if nothing is known
    std::string text;               // why it is not kReached; one line that names both and the
                                    // address
  };

  // `membership` outlives it.
  Reachability(Options options, const Membership* membership);

  // Drops outdated knowledge about this daemon.
  void Forget(const std::string& daemon);
  // Returns the tries to request now.
  std::vector<Try> Due(absl::Time now);
  // Logs changes; returns whether there were any.
  bool OnPeersTried(const std::string& worker, const proto::PeersTried& tried, absl::Time now);

  // Returns the worst verdict over the server's shards. A server of another protocol version counts
  // as not reached.
  Verdict Between(const std::string& worker, const std::string& server, absl::Time now) const;
  // Returns the worker's results for the shards that it has tried, by address.
  std::vector<proto::PeerReach> Tried(const std::string& worker) const;

 private:
  struct Pair {
    std::string server;
    absl::Time first_asked_at;
    absl::Time asked_at;               // or answered at
    bool is_waiting = true;            // for an answer
    std::optional<std::string> error;  // of the newest answer; empty: reached; absent: no answer
                                       // yet
  };

  bool IsDue(const Pair& pair, absl::Time now) const;
  std::string Describe(const std::string& worker, const std::string& address,
                       const Pair& pair) const;

  const Options options_;
  const Membership* const membership_;
  absl::Time next_look_ = absl::InfinitePast();
  std::map<std::string, std::map<std::string, Pair>> pairs_;  // by worker, by address
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_MEMBERS_REACHABILITY_H_
