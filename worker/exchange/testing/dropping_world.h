#ifndef STRATA_WORKER_EXCHANGE_TESTING_DROPPING_WORLD_H_
#define STRATA_WORKER_EXCHANGE_TESTING_DROPPING_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "worker/exchange/testing/all_reduce_world.h"
#include "worker/exchange/testing/training_node.h"

namespace strata::worker {

// The nodes of an all-reduce that goes on without those that die, on a simulated network, and a
// coordinator as small as can be: it learns of deaths some time later, stops the ring, and has the
// nodes that are left form a new one. Its messages take as long as they like, and some come twice.
class DroppingWorld {
 public:
  // Weights by the steps that they come after.
  using Course = std::map<uint64_t, std::vector<float>>;

  // `options.job` is the optimizer's part. Every node has kSamples.
  static constexpr uint32_t kSamples = 8;
  explicit DroppingWorld(const AllReduceWorld::Options& options);

  // Nodes that die: after so much time; once they have sent so many REDUCEs and GATHERs, from the
  // barrier alone if `of_barrier`; or some time after the coordinator has begun to tell a decision.
  void KillAt(uint32_t node, absl::Duration after);
  void KillAfter(uint32_t node, uint64_t frames, bool of_barrier);
  void KillAtForming(uint32_t node) { die_at_forming_.insert(node); }

  // Until every node has finished, failed or been killed, or the job has failed; false: it does not
  // come to that.
  bool Run();

  // Why the job does not go on: what a node has answered.
  const absl::Status& failure() const { return failure_; }
  // OK: it has finished. Aborted: it was killed.
  absl::Status status(uint32_t node) const { return nodes_[node]->status(); }
  const Course& course(uint32_t node) const { return courses_[node]; }
  ExchangeCounters counters(uint32_t node) const { return nodes_[node]->counters(); }
  // The nodes whose sums are in the mean of the step.
  std::vector<uint32_t> MembersAt(uint64_t step) const;
  const proto::JobRecord& record() const { return record_; }
  // Rings that were decided upon, and those of them in which some nodes lacked a step.
  uint32_t rings() const { return rings_; }
  uint32_t lacking() const { return lacking_; }
  transport::SimNetwork& network() { return network_; }

 private:
  TrainingNode::Options NodeOptions(uint32_t node);
  void Kill(uint32_t node);
  // Has the node told something some time later, if it is there then.
  void Say(uint32_t node, const std::function<void()>& what);
  absl::Duration SomeTime(absl::Duration most);
  std::vector<uint32_t> Left() const;

  void OnDeath(uint32_t node);
  void OnFinished(uint32_t node);
  void AskAll();
  void OnStopped(uint32_t node, uint32_t number, const absl::StatusOr<StoppedRing>& stopped);
  void DecideIfAllHaveAnswered();

  const AllReduceWorld::Options options_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  std::vector<std::unique_ptr<TrainingNode>> nodes_;
  std::vector<Course> courses_;
  std::set<uint32_t> die_at_forming_;

  // The coordinator's.
  std::set<uint32_t> dropped_, finished_, ending_;
  uint32_t number_;
  bool is_asking_ = false;
  std::map<uint32_t, StoppedRing> answers_;
  std::map<uint64_t, std::vector<uint32_t>> members_;  // from a step on
  uint32_t rings_ = 0, lacking_ = 0;
  absl::Status failure_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_TESTING_DROPPING_WORLD_H_
