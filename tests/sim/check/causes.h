#ifndef STRATA_TESTS_SIM_CHECK_CAUSES_H_
#define STRATA_TESTS_SIM_CHECK_CAUSES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::sim {

// What was done in this run that a job may fail by, and what is known of the job besides. By
// everything else, all breaks, delays and pauses, no job may fail. Daemons are named as reasons
// name them: "worker w1", "server s0".
class Causes {
 public:
  // A frame of the job was changed on its way to a shard.
  void OnCorrupted(uint32_t job) { corrupted_.insert(job); }
  // The processes of a node of the job have ended by themselves; or stand still for long.
  void OnNodeDeath(uint32_t job, uint32_t node) {
    ++node_deaths_[job];
    OnFrozen(job, node);
  }
  void OnFrozen(uint32_t job, uint32_t node) { unheard_.emplace(job, node); }
  // True if a job may drop this node, of this worker, where it drops nodes that die.
  bool MayDrop(uint32_t job, uint32_t node, const std::string& worker) const;
  // At most so many nodes of the job are gone, or may be taken for that.
  size_t CountGone(uint32_t job) const;
  void OnCancel(uint32_t job) { cancelled_.insert(job); }
  // A daemon's process has died, or the coordinator does not hear of it for too long.
  void OnLost(const std::string& daemon) { lost_.insert(daemon); }
  bool was_lost(const std::string& daemon) const { return lost_.count(daemon) > 0; }
  // The worker's connections to the server fail for a while; a short one, unless the worker does
  // not say that it is over.
  void OnKeptApart(const std::string& worker, const std::string& server) {
    kept_apart_.emplace(worker, server);
  }
  void OnNoAnswer(const std::string& worker) { silent_.insert(worker); }
  // The coordinator's process ends. Jobs in `starting` have nodes that do not train yet;
  // `remembers`: the next process knows that there was one before.
  void OnRestart(std::set<uint32_t> starting, bool remembers);
  // There are so many in all; jobs have second copies.
  void set_servers(size_t servers, bool has_copies) {
    servers_ = servers;
    has_copies_ = has_copies;
  }
  // A process of the coordinator begins, and lets a daemon in.
  void OnStart(absl::Time now) { started_at_ = now; }
  void OnMet(const std::string& daemon) { met_.insert(daemon); }
  // The shard's primary has said that its backup is slow, or refuses to follow.
  void OnSlowBackup(uint32_t job, uint32_t shard) { slow_backups_.emplace(job, shard); }
  // A server has refused to take a shard's new copy in, or to fill the next one; or who fills the
  // next one has said that it is silent, or refuses to follow.
  void OnRefusedCopy(uint32_t job, uint32_t shard, uint32_t generation) {
    refused_copies_.insert({job, shard, generation});
  }
  // A user asks that a server be taken out of service, or be put back (`undo`): from then on it may
  // be so. And it is so, for the coordinator has said it.
  void OnDrainAsked(const std::string& server, bool undo);
  void OnDrainDone(const std::string& server, bool undo);
  // A server has heard that it is to take a shard's new copy in.
  void OnCopyAnnounced(uint32_t job, uint32_t shard, uint32_t generation) {
    told_copies_.insert({job, shard, generation});
  }
  // A server says to the coordinator which jobs it holds copies of. What was saved for it and never
  // reached it may be given up then.
  void OnHeld(const std::string& server, const std::set<uint32_t>& jobs);
  // A primary has said that its second copy is whole, or who fills the next one that this is.
  void OnWhole(uint32_t job, uint32_t shard, uint32_t generation) {
    whole_copies_.insert({job, shard, generation});
  }
  // The servers that have a shard's first and second copy; empty: none has.
  struct Home {
    std::string first, second;
    bool is_partial = false;  // the second
    uint32_t generation = 0;
    // The copy that is to be the second one next; empty: none is.
    std::string next;
    uint32_t next_generation = 0;  // of the last one of these
    bool replaces_first = false;   // the second one is the first then
    bool operator==(const Home&) const = default;
  };
  // Where the shards of a job lie that trains, with second copies: by shard. "", or what nothing
  // that was done explains.
  std::string OnHomes(uint32_t job, const std::vector<Home>& homes);
  // The job runs, and on this daemon.
  void OnRunning(uint32_t job, absl::Time now) { running_since_.emplace(job, now); }
  void OnPlaced(uint32_t job, const std::string& daemon) { placed_.emplace(job, daemon); }

  // A frame that the network has changed is refused, and the node takes that as final: the job
  // fails by name rather than with wrong weights. So it does where a server's next process listens
  // at the same address, unless the job has second copies.
  bool ExplainNodeError(uint32_t job, const std::string& reason) const;
  // True if the job may have ended so, and says so in the right words.
  bool Explain(uint32_t job, proto::JobState state, const std::string& reason,
               absl::Time now) const;

 private:
  bool MayNotFit(absl::Time now) const;
  bool MayMove(uint32_t job, uint32_t shard, const Home& was, const Home& is) const;
  // The same in one generation.
  bool MayStay(uint32_t job, uint32_t shard, const Home& was, const Home& is) const;
  // Of the copy that is to be the second one next.
  bool MayDropNext(uint32_t job, uint32_t shard, const Home& was) const;
  bool IsServerLost(const std::string& server) const {
    return was_lost(absl::StrCat("server ", server));
  }
  bool MayBeOut(const std::string& server) const;
  bool MayBeBack(const std::string& server) const;
  bool MayLackServers(uint32_t job, const std::string& reason, absl::Time now) const;
  bool NamesLost(uint32_t job, const std::string& reason) const;
  // A node has died twice, and come no further in between.
  bool NamesDeaths(uint32_t job, const std::string& reason) const;
  // Returns true if `reason` is that a job which drops dead nodes would have too few left, or
  // cannot continue without one yet.
  bool NamesDropped(uint32_t job, const std::string& reason) const;
  // True if the server had the only copy of a shard, which the reason names.
  bool NamesOnlyCopy(uint32_t job, const std::string& server, const std::string& reason) const;
  bool MayLackHosts(const std::string& reason) const;

  std::set<uint32_t> corrupted_, cancelled_;
  // What a server may be since a user has asked for it.
  struct Service {
    bool out = false, back = false;
  };
  std::map<std::string, Service> drains_;
  std::set<uint32_t> starting_;  // when the coordinator's process ended
  std::set<std::string> lost_, met_, silent_;
  std::set<std::pair<std::string, std::string>> kept_apart_;
  std::set<std::pair<uint32_t, std::string>> placed_;
  std::set<std::pair<uint32_t, uint32_t>> slow_backups_;
  // By job, shard and generation.
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> refused_copies_, whole_copies_;
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> told_copies_, copies_that_none_has_;
  std::map<uint32_t, std::vector<Home>> homes_;  // by job
  std::map<uint32_t, absl::Time> running_since_;
  std::map<uint32_t, uint32_t> node_deaths_;         // by job
  std::set<std::pair<uint32_t, uint32_t>> unheard_;  // job, node
  size_t servers_ = 0;
  bool has_copies_ = false;
  bool restarted_ = false, remembers_ = false;
  absl::Time started_at_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_CAUSES_H_
