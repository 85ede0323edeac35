#ifndef STRATA_WORKER_TESTING_REFORMING_NODES_H_
#define STRATA_WORKER_TESTING_REFORMING_NODES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "proto/record.pb.h"
#include "worker/exchange/all_reduce/reforming_core.h"
#include "worker/testing/all_reduce_world.h"
#include "worker/testing/training_node.h"

namespace strata::worker {

inline constexpr uint32_t kElements = 64, kChunks = 2;  // two slices each
inline const absl::Time kNow = absl::FromUnixSeconds(1);

inline proto::JobRecord Record(uint32_t nodes) {
  AllReduceWorld::Options options;
  options.nodes = nodes;
  options.elements = kElements;
  options.chunk_elements = kElements / kChunks;
  options.job = absl::StrCat("on_loss: DROP ranks_per_node: 1 ranks: ", nodes);
  return AllReduceWorld::RecordOf(options);
}

inline CoreOptions OptionsOf(const proto::JobRecord& record, uint32_t node) {
  CoreOptions options;
  options.record = record;
  options.node = NodeId(node);
  options.incarnation = 1;
  return options;
}

inline Bytes Floats(float value) {
  const auto floats = std::make_shared<std::vector<float>>(kElements / kChunks, value);
  return Bytes(floats, reinterpret_cast<const std::byte*>(floats->data()),
               floats->size() * sizeof(float));
}

inline proto::FormRing Forming(uint32_t number, uint64_t clock,
                               const std::vector<uint32_t>& nodes) {
  proto::FormRing forming;
  forming.mutable_change()->set_number(number);
  forming.set_clock(clock);
  forming.mutable_nodes()->Add(nodes.begin(), nodes.end());
  return forming;
}

// Cores whose frames reach each other in order, and whose nodes answer at once: sums are eight
// times the node's number plus the clock.
class ReformingNodes {
 public:
  explicit ReformingNodes(uint32_t nodes)
      : record_(Record(nodes)), made_(nodes), sums_(nodes), failures_(nodes) {
    for (uint32_t n = 0; n < nodes; ++n) {
      cores_.push_back(*ReformingCore::Create(OptionsOf(record_, n), kernels::Cpu()));
    }
    is_carrying_ = true;  // only once all have started
    for (uint32_t n = 0; n < nodes; ++n) {
      const auto start = [&](CoreActions* actions) {
        return cores_[n]->OnLinkEvent(LinkEvent::Start(), kNow, actions);
      };
      EXPECT_EQ(Call(n, start), absl::OkStatus());
    }
    is_carrying_ = false;
    EXPECT_EQ(Wait(0, absl::ZeroDuration()), absl::OkStatus());
    EXPECT_EQ(cores_[0]->phase(), ExchangeCore::Phase::kTraining);
  }

  ReformingCore& core(uint32_t node) { return *cores_[node]; }
  // Steps delivered to the node.
  const std::vector<NodeAction>& made(uint32_t node) const { return made_[node]; }
  // Sums requested from it.
  int sums(uint32_t node) const { return sums_[node]; }
  void Kill(uint32_t node) { cores_[node].reset(); }
  absl::Time deadline(uint32_t node) const { return cores_[node]->deadline(); }

  absl::Status Call(uint32_t node, const std::function<absl::Status(CoreActions*)>& call) {
    CoreActions actions;
    absl::Status status = call(&actions);
    while (!actions.wire.empty() || !actions.node.empty()) {
      CoreActions next;
      for (const WireAction& action : actions.wire) status.Update(Do(node, action, &next));
      for (const NodeAction& action : actions.node) status.Update(Do(node, action, &next));
      actions = std::move(next);
    }
    if (std::exchange(is_carrying_, true)) return status;
    for (; !on_the_way_.empty(); on_the_way_.pop_front()) on_the_way_.front()();
    is_carrying_ = false;
    return status;
  }
  absl::Status Submit(uint32_t node, uint32_t chunk) {
    return Call(node, [&](CoreActions* actions) {
      return cores_[node]->Submit(ChunkId(chunk), kNow, actions);
    });
  }
  void SubmitAll(uint32_t node) {
    for (uint32_t c = 0; c < kChunks; ++c) EXPECT_EQ(Submit(node, c), absl::OkStatus());
  }
  absl::Status Finish(uint32_t node, uint64_t clocks) {
    return Call(node,
                [&](CoreActions* actions) { return cores_[node]->Finish(clocks, kNow, actions); });
  }
  absl::StatusOr<StoppedRing> Stop(uint32_t node, uint32_t number) {
    absl::StatusOr<StoppedRing> stopped;
    EXPECT_TRUE(Call(node, [&](CoreActions* actions) {
                  stopped = cores_[node]->StopRing(number, kNow, actions);
                  return absl::OkStatus();
                }).ok());
    return stopped;
  }
  absl::Status Form(uint32_t node, const proto::FormRing& forming) {
    return Call(
        node, [&](CoreActions* actions) { return cores_[node]->FormRing(forming, kNow, actions); });
  }
  // Advances the time at the node.
  absl::Status Wait(uint32_t node, absl::Duration time) {
    return Call(node, [&](CoreActions* actions) {
      return cores_[node]->OnLinkEvent(LinkEvent::Time(), kNow + time, actions);
    });
  }
  // GATHERs of the chunk no longer reach the node.
  void LoseGathers(uint32_t chunk, uint32_t to) { lost_ = {chunk, to}; }
  void LoseNothing() { lost_.reset(); }
  // The error of a frame that came.
  const absl::Status& failure(uint32_t node) const { return failures_[node]; }

 private:
  struct End {
    uint32_t node = 0;
    bool open = true;
  };

  absl::Status Do(uint32_t node, const WireAction& action, CoreActions* next);
  absl::Status Do(uint32_t node, const NodeAction& action, CoreActions* next);
  void Lost(uint64_t end);

  const proto::JobRecord record_;
  std::vector<std::unique_ptr<ReformingCore>> cores_;
  std::vector<std::vector<NodeAction>> made_;
  std::vector<int> sums_;
  Bytes last_;
  std::vector<End> ends_;
  std::deque<std::function<void()>> on_the_way_;
  bool is_carrying_ = false;
  std::optional<std::pair<uint32_t, uint32_t>> lost_;
  std::vector<absl::Status> failures_;
};

// The nodes of an all-reduce that continues without those that die, on a simulated network, and a
// minimal coordinator: it learns of deaths some time later, stops the ring, and makes the remaining
// nodes form a new one. Its messages have random delays, and some come twice.
class DroppingWorld {
 public:
  // Weights by the steps that they come after.
  using Course = std::map<uint64_t, std::vector<float>>;

  // `options.job` is the optimizer's part. Every node has kSamples.
  static constexpr uint32_t kSamples = 8;
  explicit DroppingWorld(const AllReduceWorld::Options& options);

  // Kills nodes: after some time; once they have sent this many REDUCEs and GATHERs, of the barrier
  // only if `of_barrier`; or some time after the coordinator has begun to announce a decision.
  void KillAt(uint32_t node, absl::Duration after);
  void KillAfter(uint32_t node, uint64_t frames, bool of_barrier);
  void KillAtForming(uint32_t node) { die_at_forming_.insert(node); }

  // Runs until every node has finished, failed or been killed, or the job has failed; returns false
  // if that does not happen.
  bool Run();

  // Why the job cannot continue: a node's answer.
  const absl::Status& failure() const { return failure_; }
  // OK: it has finished. Aborted: it was killed.
  absl::Status status(uint32_t node) const { return nodes_[node]->status(); }
  const Course& course(uint32_t node) const { return courses_[node]; }
  ExchangeCounters counters(uint32_t node) const { return nodes_[node]->counters(); }
  // The nodes whose sums are in the mean of the step.
  std::vector<uint32_t> MembersAt(uint64_t step) const;
  const proto::JobRecord& record() const { return record_; }
  // Number of rings decided, and of those in which some nodes lacked a step.
  uint32_t rings() const { return rings_; }
  uint32_t lacking() const { return lacking_; }
  transport::SimNetwork& network() { return network_; }

 private:
  TrainingNode::Options NodeOptions(uint32_t node);
  void Kill(uint32_t node);
  // Sends the node a message that arrives some time later, if the node is there then.
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

  // The coordinator's state.
  std::set<uint32_t> dropped_, finished_, ending_;
  uint32_t number_;
  bool is_asking_ = false;
  std::map<uint32_t, StoppedRing> answers_;
  std::map<uint64_t, std::vector<uint32_t>> members_;  // from a step on
  uint32_t rings_ = 0, lacking_ = 0;
  absl::Status failure_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TESTING_REFORMING_NODES_H_
