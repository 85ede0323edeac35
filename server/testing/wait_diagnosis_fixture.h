#ifndef STRATA_SERVER_TESTING_WAIT_DIAGNOSIS_FIXTURE_H_
#define STRATA_SERVER_TESTING_WAIT_DIAGNOSIS_FIXTURE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/coordinator/jobs/wait_diagnosis.h"

namespace strata::server {

inline const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

// Nodes 0 and 1 (w1, w2) with ranks 0, 1 and 2, 3, one server s1 with one shard, at step 57 of a
// job of 61 chunks. All have just reported and progressed; tests change what differs.
class DiagnosisTest : public ::testing::Test {
 protected:
  DiagnosisTest() {
    for (uint32_t n : {0, 1}) {
      proto::NodeActivity& activity = activities_.emplace_back();
      activity.set_node(n);
      activity.set_phase("training");
      activity.set_process_state("running");
      for (uint32_t r : {0, 1}) {
        proto::RankActivity* rank = activity.add_ranks();
        rank->set_rank(2 * n + r);
        rank->set_clock(57);
        rank->set_chunks(61);
        rank->set_published(12);
        rank->set_process_state("running");
      }
      proto::ShardActivity* shard = activity.add_shards();
      shard->set_address("tcp://10.0.0.2:7100");
      shard->set_connected(true);
      NodeScene& node = scene_.nodes.emplace_back();
      node.node = n;
      node.daemon = n == 0 ? "w1" : "w2";
      node.ready = true;
      node.heard_at = kNow;
      node.activity_at = kNow;
      clocks_.emplace_back().set_node(n);
      clocks_.back().set_clock(57);
      clocks_.back().set_chunk(40);
      clocks_.back().set_connected(true);
    }
    for (uint32_t n : {0, 1}) {
      scene_.nodes[n].activity = &activities_[n];
      scene_.nodes[n].lines_since = &lines_since_[n];
    }
    ShardScene& shard = scene_.shards.emplace_back();
    shard.daemon = "s1";
    shard.address = "tcp://10.0.0.2:7100";
    shard.installed = true;
    shard.heard_at = kNow;
    shard.nodes = &clocks_;
    shard.nodes_at = kNow;
    shard.nodes_since = &clocks_since_;
    shard.least_since = kNow;
    scene_.staleness = 0;
    scene_.phase_since = kNow - absl::Minutes(10);
  }

  proto::NodeActivity& node(int n) { return activities_[n]; }
  proto::RankActivity& rank(int r) { return *activities_[r / 2].mutable_ranks(r % 2); }
  proto::ShardActivity& line(int n) { return *activities_[n].mutable_shards(0); }
  ShardScene& shard() { return scene_.shards[0]; }

  // All ranks but one have published step 57 and have waited for `seconds`.
  void WaitAllBut(int culprit, int64_t seconds) {
    for (int r = 0; r < 4; ++r) {
      rank(r).set_idle_ms(seconds * 1000);
      if (r == culprit) continue;
      rank(r).set_clock(58);
      rank(r).set_published(0);
      rank(r).set_waiting(true);
    }
    const int other = culprit < 2 ? 1 : 0;
    clocks_[other].set_unanswered(4);
    line(other).set_unanswered(4);
    line(other).set_oldest_clock(57);
    line(other).set_oldest_chunk(13);
    line(other).set_oldest_ms(seconds * 1000);
    shard().least_since = kNow - absl::Seconds(seconds);
  }

  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (const proto::Wait& wait : Diagnose(scene_, kNow)) texts.push_back(wait.text());
    return texts;
  }

  std::deque<proto::NodeActivity> activities_;
  std::vector<proto::NodeClock> clocks_;
  // Long ago.
  std::vector<absl::Time> clocks_since_ = {absl::UnixEpoch(), absl::UnixEpoch()};
  std::vector<absl::Time> lines_since_[2] = {{absl::UnixEpoch()}, {absl::UnixEpoch()}};
  JobScene scene_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_WAIT_DIAGNOSIS_FIXTURE_H_
