#ifndef STRATA_TESTS_SIM_CAUSES_H_
#define STRATA_TESTS_SIM_CAUSES_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "proto/control.pb.h"

namespace strata::sim {

// What was done in this run that a job may fail by. Everything else, all breaks and delays, no job
// may fail by.
class Causes {
 public:
  // A frame of the job was changed on its way to a shard.
  void OnCorrupted(uint32_t job) { corrupted_.insert(job); }
  void OnCancel(uint32_t job) { cancelled_.insert(job); }
  // The process of "worker w1" or "server s0" has died, or the coordinator has not heard of it.
  void OnLost(const std::string& daemon) { lost_.insert(daemon); }
  bool was_lost(const std::string& daemon) const { return lost_.count(daemon) > 0; }
  // The worker's connections to the server fail for a while; a short one, unless the worker does
  // not say that it is over.
  void OnKeptApart(const std::string& worker, const std::string& server) {
    kept_apart_.emplace(worker, server);
  }
  void OnNoAnswer(const std::string& worker) { silent_.insert(worker); }
  // A process of the coordinator lets the worker in; a new process has met none.
  void OnMet(const std::string& worker) { met_.insert(worker); }
  void OnRestart() {
    restarted_ = true;
    met_.clear();
  }

  // A frame that the network has changed is refused, and the node takes that as final: the job
  // fails by name rather than with wrong weights.
  bool ExplainNodeError(uint32_t job, const std::string& reason) const;
  // Whether the job may have ended so, and says so in the right words.
  bool Explain(uint32_t job, proto::JobState state, const std::string& reason) const;

 private:
  // Whether a daemon of the role was, `unmet`: one that the coordinator cannot know.
  bool IsLost(const std::string& role, bool unmet) const;
  bool NamesKeptApart(const std::string& reason) const;
  bool NamesLost(const std::string& reason) const;

  std::set<uint32_t> corrupted_, cancelled_;
  std::set<std::string> lost_, met_, silent_;
  std::set<std::pair<std::string, std::string>> kept_apart_;
  bool restarted_ = false;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CAUSES_H_
