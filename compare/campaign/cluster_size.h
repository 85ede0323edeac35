#ifndef STRATA_COMPARE_CAMPAIGN_CLUSTER_SIZE_H_
#define STRATA_COMPARE_CAMPAIGN_CLUSTER_SIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"

namespace strata::compare {

// The figures of a cluster that decide which jobs fit.
struct ClusterSize {
  std::vector<uint32_t> slots;  // of each worker, in the order of rank assignment
  std::vector<uint32_t> used;   // used by running jobs; missing entries are 0
  // Slots for ranks on GPUs; missing entries are 0.
  std::vector<uint32_t> gpu_slots, gpu_slots_used;
  uint32_t servers = 0;
  uint32_t shards = 0;  // of all servers
};

// Returns the size of the cluster of live daemons.
ClusterSize MeasureCluster(const proto::ListNodesReply& nodes);

// "2 servers with 2 shards, 4 workers with 8 slots", and with GPUs " and 4 GPU slots".
std::string Words(const ClusterSize& size);

// Checks that a valid job can run there alone. Errors: InvalidArgument, one line that says what is
// missing.
absl::Status CheckFits(const proto::Job& job, const ClusterSize& size);

// Returns how many such jobs run there at the same time in addition to the present ones. May be 0.
size_t JobsAtOnce(const proto::Job& job, const ClusterSize& size);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_CLUSTER_SIZE_H_
