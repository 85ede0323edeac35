#ifndef STRATA_WORKER_AGENT_NODE_WATCH_H_
#define STRATA_WORKER_AGENT_NODE_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/transport/endpoint_refusals.h"
#include "proto/processes.pb.h"

namespace strata::worker {

// What one job does on this node, for the heartbeat: the aggregator's last word, how old it is, and
// what the kernel says of its processes. A node without an aggregator is known by its rank's
// reports.
//
// Threads: one. Time comes with the calls.
class NodeWatch {
 public:
  // Gives the state of a child, numbered as in NodeLife: see ProcessState. Empty: not started yet.
  using StateOf = std::function<std::string(int child)>;

  NodeWatch(uint32_t job, const proto::LogicalNode& node, bool aggregator, absl::Time now);

  void OnActivity(const proto::NodeActivity& activity, absl::Time now);
  void OnRefusals(const proto::NodeRefusals& refusals);
  void OnReady(absl::Time now);
  void OnReport(const proto::RankReport& report, absl::Time now);

  // As NodeActivity says; absent: not known.
  std::optional<uint64_t> steps_made() const {
    return newest_.has_steps_made() ? std::optional(newest_.steps_made()) : std::nullopt;
  }
  proto::NodeActivity Now(const StateOf& state_of, absl::Time now) const;
  // What the aggregator has refused so far on the node's sockets.
  transport::Refusals refusals() const;

 private:
  const bool aggregator_;
  absl::Time heard_at_;
  proto::NodeActivity newest_;
  transport::Refusals endpoint_refusals_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_NODE_WATCH_H_
