#ifndef STRATA_COMPARE_VIRTUAL_TIME_JOB_HOSTS_H_
#define STRATA_COMPARE_VIRTUAL_TIME_JOB_HOSTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/record.pb.h"

namespace strata::compare {

// A host of a cluster.
struct ClusterHost {
  std::string name;  // "gpu-0", "server-1"
  int group = -1;    // of its node; -1: it has no node
  proto::Link link;
  std::string site;
};

// Returns the hosts of a cluster: one for each node, in the order of the groups, then those of
// servers alone.
std::vector<ClusterHost> ListHosts(const proto::Cluster& cluster);

// A shard of a job.
struct JobShard {
  uint32_t host = 0;
  std::string address;
};

// The hosts of a job, as a coordinator would choose them.
struct JobPlaces {
  proto::JobRecord record;             // complete
  std::vector<uint32_t> host_of_node;  // by logical node
  std::vector<JobShard> shards;        // as in record.placement
};

// Places a job on a cluster by what a coordinator asks as well: which ranks go where, which servers
// hold how much, how large chunks are, how nodes all-reduce. `job` has its defaults filled in,
// `layout` and `samples_per_epoch` are those of its ranks. Errors: InvalidArgument (it does not
// fit the cluster), one line.
absl::StatusOr<JobPlaces> PlaceJob(const proto::Job& job, const proto::Cluster& cluster,
                                   const proto::Layout& layout, uint64_t samples_per_epoch);

// Returns the address of a node in an all-reduce.
std::string RingAddress(const ClusterHost& host);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_JOB_HOSTS_H_
