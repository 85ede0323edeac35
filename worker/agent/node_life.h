#ifndef STRATA_WORKER_AGENT_NODE_LIFE_H_
#define STRATA_WORKER_AGENT_NODE_LIFE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/os/process.h"
#include "common/transport/endpoint.h"
#include "proto/processes.pb.h"

namespace strata::worker {

// One job's activity on this node, for the heartbeat: the aggregator's last message, its age, and
// the kernel's figures on its processes. Without an aggregator the rank's reports are used.
//
// Threads: one. Time comes with the calls.
class NodeWatch {
 public:
  // Returns the state of a child, numbered as in NodeLife: see ProcessState. Empty: not started
  // yet.
  using StateOf = std::function<std::string(int child)>;

  NodeWatch(uint32_t job, const proto::LogicalNode& node, bool aggregator, absl::Time now);

  void OnActivity(const proto::NodeActivity& activity, absl::Time now);
  void OnRefusals(const proto::NodeRefusals& refusals);
  void OnReady(absl::Time now);
  void OnReport(const proto::RankReport& report, absl::Time now);

  // See NodeActivity; absent: unknown.
  std::optional<uint64_t> steps_made() const {
    return newest_.has_steps_made() ? std::optional(newest_.steps_made()) : std::nullopt;
  }
  proto::NodeActivity Now(const StateOf& state_of, absl::Time now) const;
  // The aggregator's refusals so far on the node's sockets.
  transport::Refusals refusals() const;

 private:
  const bool aggregator_;
  absl::Time heard_at_;
  proto::NodeActivity newest_;
  transport::Refusals endpoint_refusals_;
};

// The processes of one job on one node: decides whether the node is done or has failed, and words
// the reason. Pure: events in, verdicts out.
class NodeLife {
 public:
  // Children are numbered: 0 to ranks - 1 are the local ranks; `ranks` is the aggregator, if there
  // is one.
  NodeLife(std::string daemon, uint32_t node, uint32_t first_rank, int ranks, bool aggregator);

  int children() const { return static_cast<int>(children_.size()); }
  bool is_aggregator(int child) const { return child == ranks_; }

  // "rank 3 (node 1, w1)" or "aggregator (node 1, w1)".
  std::string ChildName(int child) const;
  // Its name in the job's trace: "node 1 rank 3" or "node 1 aggregator".
  std::string ProcessName(int child) const;

  // The child reports why it is about to fail, and whether because training has diverged.
  void OnFailedLine(int child, const std::string& line, bool has_diverged = false);
  // The aggregator has lost the rank; only the rank's own exit can tell why.
  void OnLostRank(uint32_t local_rank, const std::string& line);
  // The child has exited; `log_tail` is the last line that it wrote.
  void OnExit(int child, const ExitStatus& status, const std::string& log_tail);

  bool failed() const { return !symptoms_.empty(); }
  // Returns whether a rank is lost, and neither its exit nor anything else explains it yet:
  // processes that use a GPU take a while to exit.
  bool awaits_cause() const;
  // All children exited normally.
  bool finished() const { return gone() && !failed(); }
  // No child is left.
  bool gone() const;
  // All ranks exited normally, the aggregator has not exited.
  bool only_aggregator_left() const;

  // Returns the job's reason. One failure shows in several children, because processes that lose a
  // peer complain, too. The cause is, in this order of preference: a death by signal of a child
  // that had reported nothing, a child's own report, the lost rank's exit status, the fact that it
  // is lost, any other exit; the first of its kind. REQUIRES: failed().
  std::string Reason() const;
  // Returns whether that is a death: a signal has ended a process that had not reported any error,
  // and the others' reports follow from it. A process that aborts has found an error. REQUIRES:
  // failed().
  bool is_death() const;
  // Returns whether training has diverged: a child says so, and no child died of a signal that it
  // had not announced. REQUIRES: failed().
  bool has_diverged() const { return has_diverged_ && Classify(Cause()) == Kind::kLine; }

 private:
  enum class Kind { kSignal, kLine, kLostRanksExit, kLost, kExit };  // in order of preference
  struct Symptom {
    Kind kind;
    int child;
    std::string text;
    int signal = 0;  // that ended the child
  };
  struct Child {
    bool gone = false;
    bool said_line = false;
  };

  std::string WhoIs(int child) const;  // its name on the node
  Kind Classify(const Symptom& symptom) const;
  const Symptom& Cause() const;

  std::string daemon_;
  uint32_t node_;
  uint32_t first_rank_;
  int ranks_;
  std::vector<Child> children_;
  std::vector<Symptom> symptoms_;
  std::optional<int> lost_;  // the first
  bool has_diverged_ = false;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_NODE_LIFE_H_
