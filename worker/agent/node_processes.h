#ifndef STRATA_WORKER_AGENT_NODE_PROCESSES_H_
#define STRATA_WORKER_AGENT_NODE_PROCESSES_H_

#include <cstdint>

#include "proto/processes.pb.h"

namespace strata::worker {

// Which processes of a job are meant: those of a node, of one attempt at the job, and in that of
// one of the node's incarnations.
struct NodeProcesses {
  uint32_t attempt = 0;
  uint32_t node = 0;
  uint32_t incarnation = 0;

  static NodeProcesses Of(const proto::StartNode& start) {
    return {start.record().attempt(), start.node(), start.incarnation()};
  }

  bool operator==(const NodeProcesses&) const = default;
  // Whether others of the job, of which the coordinator has spoken before, are to make room for
  // these. A worker plays one node of a job at a time: one that it is told to begin is a newer word
  // than another one that it has played.
  bool Replaces(const NodeProcesses& others) const {
    if (attempt != others.attempt) return attempt > others.attempt;
    return node != others.node || incarnation > others.incarnation;
  }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_NODE_PROCESSES_H_
