#ifndef STRATA_SERVER_COORDINATOR_TESTING_DRAIN_FIXTURE_H_
#define STRATA_SERVER_COORDINATOR_TESTING_DRAIN_FIXTURE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {

// Servers with two shards each, on hosts of their own, and a job of four chunks.
class DrainFixture : public ::testing::Test {
 protected:
  DrainFixture() {
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    Join("s1");
    Join("s2");
  }
  void Join(const std::string& server, const std::vector<uint32_t>& jobs = {}) {
    cluster_.SetHost(server, "host of " + server);
    cluster_.JoinServer(server, 2, jobs, 0, "address-" + server);
  }
  void Train(uint32_t replicas) {
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_replicas(replicas);
    job.set_chunk_elements(256);
    job_ = cluster_.Train(job, {"w1", "w2"}, {"s1", "s2"});
    ForgetSent();
  }
  void ForgetSent() {
    for (const char* daemon : {"s1", "s2", "s3", "w1", "w2"}) cluster_.Sent(daemon);
  }
  // A job with two copies is about to leave s1 for s3.
  void BeginOfThree() {
    Train(1);
    Join("s3");
    ASSERT_TRUE(cluster_.Drain("s1").ok());
    ASSERT_EQ(Stored(0).next_backup(), "s3");
  }
  void Lose(const std::string& server) {
    cluster_.Disconnect(server);
    cluster_.Advance(absl::Seconds(10));
  }
  const proto::JobShardStatus& Stored(int shard) {
    return cluster_.stored().at(job_).status().shards(shard);
  }
  uint32_t Generation(int shard) {
    return cluster_.stored().at(job_).record().placement().shard_generations(shard);
  }
  void SayInstalled(const std::string& daemon, uint32_t shard, uint32_t generation,
                    const std::string& error = "") {
    proto::DaemonMessage message;
    proto::BackupInstalled* installed = message.mutable_backup_installed();
    installed->set_job_id(job_);
    installed->set_shard(shard);
    installed->set_generation(generation);
    installed->set_error(error);
    cluster_.Send(daemon, message);
  }
  void Report(const std::string& daemon, uint32_t shard, uint32_t generation, bool is_next,
              uint32_t missing = 0, uint32_t waits_ms = 0) {
    proto::DaemonMessage message;
    proto::JobCounters* counters = message.mutable_heartbeat()->add_jobs();
    counters->set_job_id(job_);
    proto::BackupReport* report = counters->add_backups();
    report->set_shard(shard);
    report->set_generation(generation);
    report->set_is_next(is_next);
    report->set_chunks_missing(missing);
    report->set_waits_ms(waits_ms);
    cluster_.Send(daemon, message);
  }
  // All that is being filled is whole now; then time for the next step.
  void FillAll() {
    const proto::JobStatus status = cluster_.stored().at(job_).status();
    for (int i = 0; i < status.shards_size(); ++i) {
      const proto::JobShardStatus& shard = status.shards(i);
      const auto number = static_cast<uint32_t>(i);
      if (!shard.next_backup().empty()) {
        SayInstalled(shard.next_backup(), number, shard.next_generation());
        Report(shard.replaces_primary() ? shard.backup() : shard.daemon(), number,
               shard.next_generation(), /*is_next=*/true);
      } else if (shard.backup_is_partial()) {
        SayInstalled(shard.backup(), number, Generation(i));
        Report(shard.daemon(), number, Generation(i), /*is_next=*/false);
      }
    }
    cluster_.Advance(absl::Milliseconds(200));
  }
  std::set<std::string> Servers() {
    std::set<std::string> servers;
    for (const proto::JobShardStatus& shard : cluster_.stored().at(job_).status().shards()) {
      servers.insert({shard.daemon(), shard.backup(), shard.next_backup()});
    }
    servers.erase("");
    return servers;
  }
  proto::DrainReply Tell(const std::string& daemon) {
    const auto told = cluster_.Drain(daemon, proto::DrainRequest::TELL);
    EXPECT_TRUE(told.ok()) << told.status();
    return told.ok() ? *told : proto::DrainReply();
  }
  proto::DaemonStatus Shown(const std::string& daemon) {
    const proto::ListNodesReply nodes = cluster_.core().ListNodes(cluster_.now());
    for (const proto::DaemonStatus& one : nodes.daemons()) {
      if (one.name() == daemon) return one;
    }
    return {};
  }
  std::string Refusal(const std::string& daemon,
                      proto::DrainRequest::Action action = proto::DrainRequest::DRAIN) {
    return std::string(cluster_.Drain(daemon, action).status().message());
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TESTING_DRAIN_FIXTURE_H_
