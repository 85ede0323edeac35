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

// Records everything in this run that may make a job fail, and what is known of the job. No other
// break, delay or pause may make a job fail. Daemons are named as in reasons: "worker w1", "server
// s0".
class Causes {
 public:
  // A frame of the job was modified on its way to a shard.
  void OnCorrupted(uint32_t job) { corrupted_.insert(job); }
  // The processes of a node of the job have exited by themselves, or are paused for long.
  void OnNodeDeath(uint32_t job, uint32_t node) {
    ++node_deaths_[job];
    OnFrozen(job, node);
  }
  void OnFrozen(uint32_t job, uint32_t node) { unheard_.emplace(job, node); }
  // Returns true if a job that drops dead nodes may drop this node, which runs on this worker.
  bool MayDrop(uint32_t job, uint32_t node, const std::string& worker) const;
  // At most this many nodes of the job are gone, or may be taken for gone.
  size_t CountGone(uint32_t job) const;
  void OnCancel(uint32_t job) { cancelled_.insert(job); }
  // A daemon's process has died, or the coordinator has not heard from it for too long.
  void OnLost(const std::string& daemon) { lost_.insert(daemon); }
  bool was_lost(const std::string& daemon) const { return lost_.count(daemon) > 0; }
  // The worker's connections to the server fail for a while; only briefly, unless the worker does
  // not report that it is over.
  void OnKeptApart(const std::string& worker, const std::string& server) {
    kept_apart_.emplace(worker, server);
  }
  void OnNoAnswer(const std::string& worker) { silent_.insert(worker); }
  // The coordinator's process ends. Jobs in `starting` have nodes that do not train yet.
  // `remembers`: the next process knows that there was one before.
  void OnRestart(std::set<uint32_t> starting, bool remembers);
  // `servers`: their total number. `has_copies`: jobs have second copies.
  void set_servers(size_t servers, bool has_copies) {
    servers_ = servers;
    has_copies_ = has_copies;
  }
  // A process of the coordinator begins, and accepts daemons.
  void OnStart(absl::Time now) { started_at_ = now; }
  void OnMet(const std::string& daemon) { met_.insert(daemon); }
  // The shard's primary has reported that its backup is slow, or refuses to follow.
  void OnSlowBackup(uint32_t job, uint32_t shard) { slow_backups_.emplace(job, shard); }
  // A server has refused to install a shard's new copy or to fill the next one, or the copy that
  // fills the next one has reported that it is silent or refuses to follow.
  void OnRefusedCopy(uint32_t job, uint32_t shard, uint32_t generation) {
    refused_copies_.insert({job, shard, generation});
  }
  // A user asks to take a server out of service, or to put it back (`undo`): it may be so from now
  // on. The second: the coordinator has confirmed it.
  void OnDrainAsked(const std::string& server, bool undo);
  void OnDrainDone(const std::string& server, bool undo);
  // A server has been told to install a shard's new copy.
  void OnCopyAnnounced(uint32_t job, uint32_t shard, uint32_t generation) {
    told_copies_.insert({job, shard, generation});
  }
  // A server reports the jobs whose copies it holds. The coordinator may then give up copies that
  // were saved for it and never reached it.
  void OnHeld(const std::string& server, const std::set<uint32_t>& jobs);
  // A primary has reported that its second copy is complete, or the copy that fills the next one
  // that this one is.
  void OnWhole(uint32_t job, uint32_t shard, uint32_t generation) {
    whole_copies_.insert({job, shard, generation});
  }
  // The servers with a shard's first and second copy; empty: none.
  struct Home {
    std::string first, second;
    bool is_partial = false;  // the second is incomplete
    uint32_t generation = 0;
    // The copy that will be the second one next; empty: none.
    std::string next;
    uint32_t next_generation = 0;  // generation of the last of these
    bool replaces_first = false;   // the second one becomes the first then
    bool operator==(const Home&) const = default;
  };
  // Checks the places, by shard, of a training job with second copies. Returns "", or a change that
  // no recorded event explains.
  std::string OnHomes(uint32_t job, const std::vector<Home>& homes);
  // The job runs, or runs on this daemon.
  void OnRunning(uint32_t job, absl::Time now) { running_since_.emplace(job, now); }
  void OnPlaced(uint32_t job, const std::string& daemon) { placed_.emplace(job, daemon); }

  // A node treats the refusal of a frame that the network has modified as final: the job fails with
  // a reason rather than with wrong weights. The same happens if a server's next process listens at
  // the same address, unless the job has second copies.
  bool ExplainNodeError(uint32_t job, const std::string& reason) const;
  // Returns true if the job may have ended in this way, and gives the right reason.
  bool Explain(uint32_t job, proto::JobState state, const std::string& reason,
               absl::Time now) const;

 private:
  bool MayNotFit(absl::Time now) const;
  bool MayMove(uint32_t job, uint32_t shard, const Home& was, const Home& is) const;
  // The same within one generation.
  bool MayStay(uint32_t job, uint32_t shard, const Home& was, const Home& is) const;
  // The same for the copy that will be the second one next.
  bool MayDropNext(uint32_t job, uint32_t shard, const Home& was) const;
  bool IsServerLost(const std::string& server) const {
    return was_lost(absl::StrCat("server ", server));
  }
  bool MayBeOut(const std::string& server) const;
  bool MayBeBack(const std::string& server) const;
  bool MayLackServers(uint32_t job, const std::string& reason, absl::Time now) const;
  bool NamesLost(uint32_t job, const std::string& reason) const;
  // Returns true if a node has died twice without progress in between.
  bool NamesDeaths(uint32_t job, const std::string& reason) const;
  // Returns true if `reason` is that a job which drops dead nodes would have too few left, or
  // cannot continue without one yet.
  bool NamesDropped(uint32_t job, const std::string& reason) const;
  // Returns true if the server had the only copy of a shard, which the reason names.
  bool NamesOnlyCopy(uint32_t job, const std::string& server, const std::string& reason) const;
  bool MayLackHosts(const std::string& reason) const;

  std::set<uint32_t> corrupted_, cancelled_;
  // States that a server may be in since a user's request.
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
