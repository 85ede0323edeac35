#ifndef STRATA_SERVER_COORDINATOR_LOGS_LOG_PLACES_H_
#define STRATA_SERVER_COORDINATOR_LOGS_LOG_PLACES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/logs.pb.h"

namespace strata::server {

// Where a job's nodes are while somebody follows their logs, who is shown those of the workers that
// had the nodes at first. Pure.
class LogPlaces {
 public:
  LogPlaces(const proto::JobStatus& job, const proto::ReadLogs& wanted);
  // Returns a line for each node that goes on elsewhere, or has joined, since the last call.
  std::vector<std::string> News(const proto::JobStatus& job);

 private:
  bool IsWanted(const proto::JobNodeStatus& node) const;

  const proto::ReadLogs wanted_;
  std::map<uint32_t, std::string> workers_;  // by node
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_LOGS_LOG_PLACES_H_
