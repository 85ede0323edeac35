#include "compare/campaign/cluster_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::compare {
namespace {

using ::testing::ElementsAre;

proto::Job JobOf(uint32_t ranks, uint32_t ranks_per_node = 0,
                 proto::Job::Exchange exchange = proto::Job::PARAMETER_SERVER) {
  proto::Job job;
  job.set_ranks(ranks);
  job.set_ranks_per_node(ranks_per_node);
  job.set_exchange(exchange);
  return job;
}

std::string Why(const proto::Job& job, const ClusterSize& size) {
  const absl::Status status = CheckFits(job, size);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ClusterSize, CountsDaemonsThatAreAlive) {
  proto::ListNodesReply nodes;
  const auto add = [&nodes](proto::Role role, bool alive) {
    proto::DaemonStatus* daemon = nodes.add_daemons();
    daemon->set_role(role);
    daemon->set_alive(alive);
    return daemon;
  };
  add(proto::SERVER, true)->add_shard_ports(1);
  nodes.mutable_daemons(0)->add_shard_ports(2);
  add(proto::SERVER, false)->add_shard_ports(3);
  add(proto::WORKER, true)->set_slots(4);
  add(proto::WORKER, false)->set_slots(8);
  proto::DaemonStatus* const last = add(proto::WORKER, true);
  last->set_slots(2);
  last->set_gpu_slots(3);
  last->set_gpu_slots_used(1);
  proto::DaemonStatus* const stand_in = add(proto::WORKER, true);
  stand_in->set_slots(16);
  stand_in->set_stands_in(true);
  const ClusterSize size = MeasureCluster(nodes);
  EXPECT_THAT(size.slots, ElementsAre(4, 2));
  EXPECT_THAT(size.gpu_slots, ElementsAre(0, 3));
  EXPECT_THAT(size.gpu_slots_used, ElementsAre(0, 1));
  EXPECT_EQ(size.servers, 1u);
  EXPECT_EQ(size.shards, 2u);
  EXPECT_EQ(Words(size), "1 server with 2 shards, 2 workers with 6 slots and 3 GPU slots");
}

TEST(ClusterSize, JobsFitWhereRanksNodesAndServersDo) {
  const ClusterSize size = {.slots = {2, 2}, .servers = 1, .shards = 1};
  EXPECT_EQ(CheckFits(JobOf(4), size), absl::OkStatus());
  EXPECT_EQ(CheckFits(JobOf(2, 1), size), absl::OkStatus());
  EXPECT_EQ(CheckFits(JobOf(4, 2, proto::Job::RING), {.slots = {2, 2}}), absl::OkStatus());
  EXPECT_EQ(Why(JobOf(5), size),
            "ranks: 5 do not fit on 1 server with 1 shard, 2 workers with 4 slots");
  EXPECT_EQ(Why(JobOf(3, 1), size), "ranks: 3: needs 3 workers (ranks_per_node: 1); there are 2");
  EXPECT_EQ(Why(JobOf(4), {.slots = {4}}),
            "exchange: PARAMETER_SERVER needs a server, and there is none");
  EXPECT_EQ(Why(JobOf(2, 0, proto::Job::RING), size),
            "exchange: RING needs two nodes, but all 2 ranks are on one: more nodes, or "
            "ranks_per_node, spread them");
}

TEST(ClusterSize, OnOneNodeAProgramsRanksAreARingAndAModelIsToldOfTheOption) {
  const ClusterSize size = {.slots = {2}};
  EXPECT_EQ(Why(JobOf(2, 0, proto::Job::RING), size),
            "exchange: RING needs two nodes, but the cluster has one (--nodes 2 has two)");
  proto::Job program = JobOf(2, 0, proto::Job::RING);
  program.mutable_program()->set_path("train");
  EXPECT_EQ(CheckFits(program, size), absl::OkStatus());
}

proto::Job OnGpus(uint32_t ranks, uint32_t ranks_per_node = 0) {
  proto::Job job = JobOf(ranks, ranks_per_node);
  job.set_device(proto::Job::GPU);
  return job;
}

TEST(ClusterSize, RanksOnGpusEachNeedASlotAndAGpuSlot) {
  const ClusterSize size = {.slots = {4, 4}, .gpu_slots = {2, 1}, .servers = 1, .shards = 1};
  EXPECT_EQ(Words(size), "1 server with 1 shard, 2 workers with 8 slots and 3 GPU slots");
  EXPECT_EQ(CheckFits(OnGpus(3), size), absl::OkStatus());
  EXPECT_EQ(CheckFits(JobOf(8), size), absl::OkStatus()) << "others need none";
  EXPECT_EQ(Why(OnGpus(4), size),
            "device: GPU: needs 4 GPU slots, but all 2 worker nodes together have 3 GPU slots: w0 "
            "2, w1 1");
  EXPECT_EQ(Why(OnGpus(1), {.slots = {4}, .servers = 1}),
            "device: GPU: needs 1 GPU slot, but the one worker node has 0 GPU slots: w0 0; `strata "
            "devices` there says why, unless --gpus does");
  EXPECT_EQ(JobsAtOnce(OnGpus(1), size), 3u);
  EXPECT_EQ(JobsAtOnce(OnGpus(1), {.slots = {4, 4}, .gpu_slots = {2, 2}, .gpu_slots_used = {1, 2}}),
            1u);
  EXPECT_EQ(JobsAtOnce(OnGpus(1), {.slots = {4, 4}, .used = {4, 3}, .gpu_slots = {2, 2}}), 1u);
}

TEST(ClusterSize, AStragglerThatIsNotThereIsRefused) {
  const ClusterSize size = {.slots = {2, 2}, .servers = 1, .shards = 1};
  proto::Job job = JobOf(4);
  job.mutable_debug()->add_delays()->set_node(1);
  EXPECT_EQ(CheckFits(job, size), absl::OkStatus());
  job.mutable_debug()->add_delays()->set_node(2);
  EXPECT_EQ(Why(job, size), "debug.delays: there is no node 2: the job has 2 nodes, from 0");
}

TEST(ClusterSize, AsManyJobsAtOnceAsTheirRanksFindFreeSlots) {
  EXPECT_EQ(JobsAtOnce(JobOf(2), {.slots = {4, 4}, .servers = 1}), 4u);
  EXPECT_EQ(JobsAtOnce(JobOf(3), {.slots = {4, 4}, .servers = 1}), 2u);
  EXPECT_EQ(JobsAtOnce(JobOf(3, 3), {.slots = {4, 5}, .servers = 1}), 2u);
  EXPECT_EQ(JobsAtOnce(JobOf(4, 2), {.slots = {4, 4}, .servers = 1}), 2u);
  EXPECT_EQ(JobsAtOnce(JobOf(2), {.slots = {4, 4}, .used = {3, 4}, .servers = 1}), 0u);
  EXPECT_EQ(JobsAtOnce(JobOf(2), {.slots = {4, 4}, .used = {2}, .servers = 1}), 3u);
}

}  // namespace
}  // namespace strata::compare
