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

// Knows which worker can connect to which shard. Every live worker is asked to try every live
// server's addresses when either joins, again and again where it failed, and now and then where it
// did not. A pure state machine over the membership. One owner.
class Reachability {
 public:
  struct Options {
    // The time from a failed try to the next, so that a repaired link heals.
    absl::Duration retry_after = absl::Seconds(2);
    // The time from a good try to the next.
    absl::Duration repeat_after = absl::Seconds(30);
    // A worker that has not answered its first try by then is not waited for: nothing is known.
    absl::Duration answer_patience = absl::Seconds(5);
  };
  // The addresses that one worker is asked to try.
  struct Try {
    SessionId session;
    proto::TryPeers peers;
  };
  enum class State { kReached, kTrying, kFailed };
  struct Verdict {
    State state = State::kReached;  // also when nothing is known
    std::string text;               // why not kReached; one line that names both and the address
  };

  // `membership` outlives it.
  Reachability(Options options, const Membership* membership);

  // Drops what was known of this daemon, which is out of date.
  void Forget(const std::string& daemon);
  // Returns what to ask for now.
  std::vector<Try> Due(absl::Time now);
  // Logs what has changed; returns false when nothing has.
  bool OnPeersTried(const std::string& worker, const proto::PeersTried& tried, absl::Time now);

  // Returns the worst verdict of all shards of the server, which counts as not reached, too, where
  // it speaks another version of the protocol.
  Verdict Between(const std::string& worker, const std::string& server, absl::Time now) const;
  // Returns the shards that the worker has tried, by address.
  std::vector<proto::PeerReach> Tried(const std::string& worker) const;

 private:
  struct Pair {
    std::string server;
    absl::Time first_asked_at;
    absl::Time asked_at;               // or answered
    bool is_waiting = true;            // for an answer
    std::optional<std::string> error;  // of the newest answer, empty: reached; none: no answer yet
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
