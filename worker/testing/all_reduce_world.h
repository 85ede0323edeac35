#ifndef STRATA_WORKER_TESTING_ALL_REDUCE_WORLD_H_
#define STRATA_WORKER_TESTING_ALL_REDUCE_WORLD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/job/trace_log.h"
#include "common/transport/link.h"
#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "worker/exchange/core/exchange.h"
#include "worker/testing/training_node.h"

namespace strata::worker {

// The nodes of one all-reduce job on a simulated network: real cores and drivers; gradients, delays
// and faults come from a seed.
class AllReduceWorld {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t nodes = 2;
    uint32_t elements = 1000, chunk_elements = 256;
    uint64_t clocks = 3;
    uint32_t window = 2;
    proto::AllReduce::Algorithm algorithm = proto::AllReduce::RING;
    std::string job;  // more of the job, as text: the optimizer
    transport::SimFaults faults;
    LinkTiming timing;
    std::vector<TraceLog*> traces;  // by node; empty: none
    // All nodes begin with the weights of the first one, and the others offer different ones.
    bool takes_first_weights = false;
    float rate = 0;  // given by ranks in each step; 0: none
    // Makes one node deviate.
    std::optional<uint32_t> other_first_weights, nan_at_clock_1, one_clock_more, other_rate;
  };

  explicit AllReduceWorld(const Options& options);

  // The node's process exits once it has sent this many REDUCEs and GATHERs.
  void KillAfter(uint32_t node, uint64_t frames);
  transport::SimNetwork& network() { return network_; }

  // Runs until every live node has finished or failed; returns false if that does not happen.
  bool Run();

  // OK: it has finished. Aborted: it was killed.
  absl::Status status(uint32_t node) const { return nodes_[node]->status(); }
  // Time from the death of the killed node, or from the beginning, until the last one had failed.
  absl::Duration took() const { return network_.Now() - since_; }
  const std::vector<float>& weights(uint32_t node) const { return nodes_[node]->weights(); }
  const std::vector<float>& first_weights(uint32_t node) const {
    return nodes_[node]->first_weights();
  }
  ExchangeCounters counters(uint32_t node) const { return nodes_[node]->counters(); }
  const proto::JobRecord& record() const { return record_; }

  // The record of such a job.
  static proto::JobRecord RecordOf(const Options& options);
  // Element i of a node's sum.
  static float Gradient(uint64_t seed, uint32_t node, uint64_t clock, uint64_t i);
  static uint32_t Samples(uint32_t node) { return 8 + node; }
  static float FirstWeight(uint64_t i) { return 0.01f * static_cast<float>(i % 97); }

 private:
  TrainingNode::Options NodeOptions(uint32_t node) const;

  const Options options_;
  transport::SimNetwork network_;
  absl::Time since_;
  proto::JobRecord record_;
  std::vector<std::unique_ptr<TrainingNode>> nodes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TESTING_ALL_REDUCE_WORLD_H_
