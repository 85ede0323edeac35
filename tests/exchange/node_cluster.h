#ifndef STRATA_TESTS_EXCHANGE_NODE_CLUSTER_H_
#define STRATA_TESTS_EXCHANGE_NODE_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/os/framed_channel.h"
#include "proto/processes.pb.h"
#include "server/shard/shard_thread.h"
#include "worker/client/client.h"

namespace strata::tests {

// The processes of one job: `nodes` x `ranks_per_node` ranks, `shards` shards; no shards with
// exchange: RING.
struct ClusterShape {
  uint32_t nodes = 1;
  uint32_t ranks_per_node = 1;
  uint32_t shards = 1;
  // Returns the address at which nodes reach the shard on this port; empty: its own address. With
  // exchange: RING, the same for the node on this port: 127.0.0.2, at the same port.
  std::function<std::string(int port)> reached_at;
  // With device: GPU: the plugin of a fake device whose memory other processes may open, and how
  // many devices the ranks share in turn.
  std::string device_plugin;
  uint32_t devices = 1;
};

// One job on aggregators and shards in this process, joined by real sockets and shared memory; the
// cluster plays coordinator and worker daemons.
class NodeCluster {
 public:
  // `job`: ranks and defaults are filled in as in a cluster with keys: frames are sealed unless it
  // says protection: PLAIN. `elements`: number of elements that the ranks will register.
  NodeCluster(const ClusterShape& shape, proto::Job job, uint64_t elements,
              uint64_t samples_per_epoch);
  ~NodeCluster();

  // Runs `body` for each rank on its own thread until the job ends. Errors: the first one of a rank
  // or an aggregator.
  absl::Status Run(const std::function<absl::Status(client::Client*)>& body);

  // Number of pushes counted by each shard.
  std::vector<uint64_t> Pushes();
  const proto::JobRecord& record() const { return record_; }

 private:
  absl::Status Begin();
  void AddToRing(const std::string& endpoint);
  void StartNode(uint32_t node);
  void Keep(const absl::Status& status);

  const ClusterShape shape_;
  proto::JobRecord record_;
  std::vector<std::unique_ptr<server::ShardThread>> shards_;
  std::vector<std::unique_ptr<FramedChannel>> agents_;  // by node: the daemon's end of the channel
  std::vector<proto::Launch> launches_;                 // by node: launch of a rank, without its
                                                        // rank
  std::vector<std::thread> aggregators_;
  absl::Mutex mutex_;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
};

// Runs the body as one rank without an exchange.
absl::Status RunAlone(proto::Job job, const std::function<absl::Status(client::Client*)>& body);

}  // namespace strata::tests

#endif  // STRATA_TESTS_EXCHANGE_NODE_CLUSTER_H_
