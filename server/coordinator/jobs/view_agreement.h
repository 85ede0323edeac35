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

// One change of a job's nodes on its way: nodes are asked from which clock on it can come; the
// largest of their answers is decided upon, and all servers of the job install it; only then nodes
// are told. One at a time. Pure.
//
// Threads: one.
class ViewAgreement {
 public:
  // No job comes to it; there are clocks after it all the same.
  static constexpr uint64_t kClockMax = uint64_t{1} << 62;

  bool is_idle() const { return stage_ == Stage::kIdle; }
  bool is_proposing() const { return stage_ == Stage::kProposing; }
  bool is_installing() const { return stage_ == Stage::kInstalling; }
  // Number, who joins and who leaves; the clock, once it is decided. REQUIRES: !is_idle().
  const proto::ViewChange& change() const { return change_; }
  // Since when nodes are asked, or servers; InfiniteFuture: they have not been yet.
  absl::Time since() const { return since_; }
  // The nodes or servers that have not answered are asked, maybe again. REQUIRES: !is_idle().
  void OnAsked(absl::Time now) { since_ = std::min(since_, now); }

  // Asks `nodes`, those that take part and stay until the clock comes. REQUIRES: is_idle().
  void Propose(const proto::ViewChange& change, const std::set<uint32_t>& nodes, absl::Time now);
  // A node has promised to begin no clock from `from_clock` on. Others are not heard, nor is one
  // that speaks of another number or of a clock past kClockMax, or says something else than before.
  void OnPromised(uint32_t node, uint32_t number, uint64_t from_clock);
  // New processes take the node's place, which have promised nothing.
  void ForgetPromise(uint32_t node) { promises_.erase(node); }
  // The node cannot join; false: the change must be given up, as nobody joins any more, or nodes
  // leave that might be needed without it.
  bool RemoveJoiner(uint32_t node);
  // The nodes that have not promised.
  std::vector<uint32_t> Unanswered() const;
  // Returns whether all nodes have promised. REQUIRES: is_proposing().
  bool is_agreed() const { return Unanswered().empty(); }

  // Decides that the change comes with the largest clock that was promised, but after that of the
  // change before. REQUIRES: is_agreed().
  const proto::ViewChange& Decide(uint64_t clock_before);
  // Lets `servers` install it: what was decided, also by a coordinator before this one.
  void Install(const proto::ViewChange& change, const std::set<std::string>& servers);
  void OnInstalled(const std::string& server) { servers_.erase(server); }
  // The servers that have not. A server that has none of the job's shards any more is not waited
  // for.
  const std::set<std::string>& uninstalled() const { return servers_; }
  bool is_installed() const { return is_installing() && servers_.empty(); }

  // The change is told, or given up.
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
