#ifndef STRATA_SERVER_COORDINATOR_JOBS_VIEW_AGREEMENT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_VIEW_AGREEMENT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/record.pb.h"

namespace strata::server {

// One pending change of a job's nodes. Nodes are asked for the first clock at which it can take
// effect; the largest answer is decided, and all servers of the job install the change; then nodes
// are told. One at a time. Pure.
//
// Threads: one.
class ViewAgreement {
 public:
  // Above any clock that a job reaches, with room for later ones.
  static constexpr uint64_t kClockMax = uint64_t{1} << 62;

  bool is_idle() const { return stage_ == Stage::kIdle; }
  bool is_proposing() const { return stage_ == Stage::kProposing; }
  bool is_installing() const { return stage_ == Stage::kInstalling; }
  // Number, joining and leaving nodes; the clock, once decided. REQUIRES: !is_idle().
  const proto::ViewChange& change() const { return change_; }
  // Since when nodes or servers have been asked; InfiniteFuture: not yet.
  absl::Time since() const { return since_; }
  // The nodes or servers that have not answered are asked, possibly again. REQUIRES: !is_idle().
  void OnAsked(absl::Time now) { since_ = std::min(since_, now); }

  // Asks `nodes`: those that participate and stay until the clock comes. REQUIRES: is_idle().
  void Propose(const proto::ViewChange& change, const std::set<uint32_t>& nodes, absl::Time now);
  // A node promised to begin no clock from `from_clock` on. Ignores nodes that were not asked,
  // other numbers, clocks past kClockMax, and answers that contradict an earlier one.
  void OnPromised(uint32_t node, uint32_t number, uint64_t from_clock);
  // The node has new processes, which have promised nothing.
  void ForgetPromise(uint32_t node) { promises_.erase(node); }
  // The node cannot join. Returns false if the change must be given up: nobody joins any more, or
  // leaving nodes might be needed without it.
  bool RemoveJoiner(uint32_t node);
  // The nodes that have not promised.
  std::vector<uint32_t> Unanswered() const;
  // Returns whether all nodes have promised. REQUIRES: is_proposing().
  bool is_agreed() const { return Unanswered().empty(); }

  // Decides the change for the largest promised clock, but after that of the previous change.
  // REQUIRES: is_agreed().
  const proto::ViewChange& Decide(uint64_t clock_before);
  // Starts the installation of a decided change on `servers`, also one of a previous coordinator.
  void Install(const proto::ViewChange& change, const std::set<std::string>& servers);
  void OnInstalled(const std::string& server) { servers_.erase(server); }
  // The servers that have not installed it. A server that holds no shard of the job any more is not
  // waited for.
  const std::set<std::string>& uninstalled() const { return servers_; }
  bool is_installed() const { return is_installing() && servers_.empty(); }

  // The change was announced, or given up.
  void End() { *this = ViewAgreement(); }

 private:
  enum class Stage { kIdle, kProposing, kInstalling };

  Stage stage_ = Stage::kIdle;
  proto::ViewChange change_;
  absl::Time since_ = absl::InfiniteFuture();
  std::set<uint32_t> asked_;
  std::map<uint32_t, uint64_t> promises_;  // clocks by node
  std::set<std::string> servers_;          // that have not installed it
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_VIEW_AGREEMENT_H_
