#include "cli/render/render.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

proto::JobStatus Job() {
  proto::JobStatus job;
  job.set_job_id(3);
  job.set_name("lenet");
  job.set_state(proto::RUNNING);
  job.set_mode("lazy(2)");
  job.set_model("lenet5");
  job.set_exchange("PARAMETER_SERVER");
  job.mutable_job()->mutable_pull()->set_codec(proto::Encoding::FP16);
  job.set_ranks(4);
  job.mutable_progress()->set_step(50);
  job.mutable_progress()->set_total_steps(100);
  job.mutable_progress()->set_test_accuracy(-1);
  auto* node = job.add_nodes();
  node->set_daemon("w0");
  node->set_ranks(4);
  node->set_step(50);
  auto* shard = job.add_shards();
  shard->set_daemon("s0");
  shard->set_chunks(16);
  shard->mutable_counters()->set_pushes(800);
  shard->mutable_counters()->set_bytes_received(1'000'000);
  return job;
}

TEST(Render, ListsJobsInColumns) {
  EXPECT_EQ(JobsText({Job()}),
            "JOB  NAME   STATE    MODE     MODEL   RANKS  STEP    ACCURACY  REASON\n"
            "3    lenet  running  lazy(2)  lenet5  4      50/100  -\n");
  EXPECT_EQ(JobsText({}), "no jobs\n");
}

TEST(Render, ShowsWhereAJobRunsAndItsShards) {
  std::string text = JobText(Job());
  EXPECT_NE(text.find("job 3 (lenet): running\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  0     w0      0-3    50    -       -\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  s0      0      16      800     0        0           0        1.00 MB"),
            std::string::npos)
      << text;
}

TEST(Render, SaysHowGradientsAndWeightsTravel) {
  proto::JobStatus job = Job();
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  encoding +push fp32, pull fp16\n"));
  const auto json = nlohmann::json::parse(JobJson(job));
  EXPECT_EQ(json["push"], "fp32");
  EXPECT_EQ(json["pull"], "fp16");
  job.mutable_job()->clear_pull();
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  encoding +fp32\n"));
}

TEST(Render, SaysWhichOptimizerAJobHas) {
  proto::JobStatus job = Job();
  job.mutable_job()->mutable_optimizer()->mutable_sgd()->set_weight_decay(0.5);
  job.mutable_job()->mutable_optimizer()->set_clip_norm(2);
  EXPECT_THAT(JobText(job), testing::ContainsRegex(
                                "\n  optimizer +sgd \\{ weight_decay: 0.5 \\} clip_norm: 2\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["optimizer"],
            "sgd { weight_decay: 0.5 } clip_norm: 2");
}

TEST(Render, SaysWhichServersHoldAJobAndWhy) {
  proto::JobStatus job = Job();
  EXPECT_THAT(JobText(job), testing::Not(testing::HasSubstr("placement")));
  job.set_placement("ON_WORKERS (AUTO): all nodes and servers are on one host");
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  placement +ON_WORKERS .AUTO.: all nodes"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["placement"], job.placement());
}

TEST(Render, SaysWhoseAJobIsWhereItHasAnOwner) {
  proto::JobStatus job = Job();
  EXPECT_THAT(JobText(job), testing::Not(testing::HasSubstr("owner")));
  EXPECT_THAT(JobsText({job}), testing::Not(testing::HasSubstr("OWNER")));
  proto::JobStatus owned = job;
  owned.set_owner("alice");
  EXPECT_THAT(JobText(owned), testing::ContainsRegex("\n  owner +alice\n"));
  owned.set_tenant("vision");
  EXPECT_THAT(JobText(owned), testing::ContainsRegex("\n  owner +alice .vision.\n"));
  EXPECT_THAT(JobsText({job, owned}), testing::ContainsRegex("NAME +OWNER +STATE"));
  EXPECT_THAT(JobsText({job, owned}), testing::HasSubstr("alice (vision)"));
  const auto json = nlohmann::json::parse(JobJson(owned));
  EXPECT_EQ(json["owner"], "alice");
  EXPECT_EQ(json["namespace"], "vision");
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["owner"], "");
}

TEST(Render, SaysOverHowManyConnectionsPeersSpeakWhereItIsNotOne) {
  proto::JobStatus job = Job();
  job.mutable_job()->set_connections(1);
  EXPECT_THAT(JobText(job), testing::Not(testing::HasSubstr("connections")));
  job.mutable_job()->set_connections(4);
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  connections +4 to each peer\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["connections"], 4);
}

TEST(Render, SaysWhoHoldsAJobUp) {
  proto::JobStatus job = Job();
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["waits"].size(), 0u);
  proto::Wait* rank = job.add_waits();
  rank->set_node(1);
  rank->set_rank(3);
  rank->set_daemon("w2");
  rank->set_clock(57);
  rank->set_seconds(12.5);
  rank->set_doing("stopped by a signal");
  rank->set_text("node 1 (w2) rank 3 at step 57 for 12 s: stopped by a signal");
  job.add_waits()->set_text("node 0 (w1): connecting to tcp://10.0.0.2:7100 for 8 s");
  EXPECT_EQ(
      JobText(job).find("job 3 (lenet): running\n"
                        "  waits: node 1 (w2) rank 3 at step 57 for 12 s: stopped by a signal\n"
                        "  waits: node 0 (w1): connecting to tcp://10.0.0.2:7100 for 8 s\n"
                        "  mode"),
      0u)
      << JobText(job);
  const auto waits = nlohmann::json::parse(JobJson(job))["waits"];
  EXPECT_EQ(
      waits[0].dump(),
      R"({"clock":57,"daemon":"w2","doing":"stopped by a signal","node":1,"rank":3,)"
      R"("seconds":12.5,"text":"node 1 (w2) rank 3 at step 57 for 12 s: stopped by a signal"})");
  EXPECT_TRUE(waits[1]["rank"].is_null());
}

TEST(Render, WritesJsonWithTheFieldNamesOfTheProtocol) {
  auto json = nlohmann::json::parse(JobJson(Job()));
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["mode"], "lazy(2)");
  EXPECT_EQ(json["progress"]["step"], 50);
  EXPECT_EQ(json["shards"][0]["pushes"], 800);
  EXPECT_TRUE(json["shards"][0]["backup"].is_null()) << "none";
  EXPECT_EQ(json["nodes"][0]["daemon"], "w0");
  EXPECT_TRUE(json["progress"]["test_accuracy"].is_null()) << "not known yet";
  EXPECT_EQ(nlohmann::json::parse(JobsJson({Job(), Job()})).size(), 2u);
}

TEST(Render, WritesToJsonWhereASecondCopyIsAndWhetherItIsWhole) {
  proto::JobStatus job = Job();
  job.mutable_shards(0)->set_backup("s1");
  job.mutable_shards(0)->set_backup_is_partial(true);
  const auto shard = nlohmann::json::parse(JobJson(job))["shards"][0];
  EXPECT_EQ(shard["backup"], "s1");
  EXPECT_EQ(shard["backup_is_partial"], true);
}

TEST(Render, WritesEachEventOfAJobAsALineOfJson) {
  proto::FollowEvent event;
  *event.mutable_status() = Job();
  std::string line = EventJson(event);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(line)["status"]["job_id"], 3);
  event.mutable_metrics()->set_step(50);
  line = EventJson(event);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(line)["metrics"]["step"], 50);
}

TEST(Render, SumsUpACluster) {
  proto::ListNodesReply nodes;
  nodes.set_cluster_id("c1");
  auto* server = nodes.add_daemons();
  server->set_role(proto::SERVER);
  server->set_alive(true);
  server->add_shard_ports(4001);
  server->add_shard_ports(4002);
  auto* worker = nodes.add_daemons();
  worker->set_role(proto::WORKER);
  worker->set_alive(true);
  worker->set_slots(4);
  worker->set_slots_used(3);
  nodes.add_daemons()->set_alive(false);
  EXPECT_EQ(ClusterText(nodes, {Job()}),
            "cluster c1\n  1 server with 2 shards, 1 worker with 4 slots (3 used)\n"
            "  1 job running, 0 queued, 1 in all\n");
  EXPECT_EQ(nlohmann::json::parse(ClusterJson(nodes, {Job()}))["jobs"].size(), 1u);
  EXPECT_NE(NodesText(nodes).find("3/4 used"), std::string::npos);
}

TEST(Render, CountsTheSlotsOfNoWorkerThatOnlyStandsIn) {
  proto::ListNodesReply nodes;
  for (const uint32_t slots : {4, 2}) {
    proto::DaemonStatus* const worker = nodes.add_daemons();
    worker->set_role(proto::WORKER);
    worker->set_alive(true);
    worker->set_slots(slots);
  }
  proto::DaemonStatus* const stand_in = nodes.mutable_daemons(1);
  stand_in->set_name("w9");
  stand_in->set_stands_in(true);
  stand_in->set_slots_used(1);
  stand_in->add_jobs(7);
  EXPECT_THAT(ClusterText(nodes, {}),
              testing::HasSubstr("  0 servers with 0 shards, 1 worker with 4 slots (0 used), "
                                 "besides 1 worker that stands in\n"));
  EXPECT_THAT(NodesText(nodes), testing::ContainsRegex("w9 +worker +alive, stands in .* 7"));
  EXPECT_EQ(nlohmann::json::parse(NodesJson(nodes))["daemons"][1]["stands_in"], true);
  EXPECT_EQ(nlohmann::json::parse(NodesJson(nodes))["daemons"][0]["stands_in"], false);
  stand_in->set_draining(true);
  EXPECT_THAT(NodesText(nodes), testing::ContainsRegex("w9 +worker +alive, draining "));
  EXPECT_THAT(ClusterText(nodes, {}), testing::Not(testing::HasSubstr("besides")));
  stand_in->set_drained(true);
  EXPECT_THAT(NodesText(nodes), testing::ContainsRegex("w9 +worker +alive, drained "));
}

TEST(Render, ShowsGpusTheirSlotsAndTheirUse) {
  proto::ListNodesReply nodes;
  auto* worker = nodes.add_daemons();
  worker->set_role(proto::WORKER);
  worker->set_alive(true);
  worker->set_slots(4);
  for (uint32_t i = 0; i < 2; ++i) {
    proto::Gpu* gpu = worker->add_gpus();
    gpu->set_index(i);
    gpu->set_name("H100");
    gpu->set_memory_bytes(100);
  }
  worker->set_gpu_slots(4);
  worker->set_gpu_slots_used(3);
  EXPECT_EQ(
      ClusterText(nodes, {}).substr(0, 96),
      "cluster \n  0 servers with 0 shards, 1 worker with 4 slots (0 used), 2 GPUs with 4 slots "
      "(3 used)");
  EXPECT_NE(NodesText(nodes).find("  3/4 used on 2 x H100  "), std::string::npos);
  const auto json = nlohmann::json::parse(NodesJson(nodes))["daemons"][0];
  EXPECT_EQ(json["gpus"][1]["index"], 1);
  EXPECT_EQ(json["gpus"][1]["name"], "H100");
  EXPECT_EQ(json["gpus"][1]["memory_bytes"], 100);
  EXPECT_EQ(json["gpu_slots"], 4);
  EXPECT_EQ(json["gpu_slots_used"], 3);
  worker->mutable_gpus(1)->set_name("T4");
  EXPECT_NE(NodesText(nodes).find("3/4 used on 0 H100, 1 T4"), std::string::npos);
}

TEST(Render, NamesTheShardsThatAWorkerCannotReach) {
  proto::ListNodesReply nodes;
  auto* worker = nodes.add_daemons();
  worker->set_name("w2");
  worker->set_role(proto::WORKER);
  worker->set_address("10.0.0.5");
  auto* reached = worker->add_peers();
  reached->set_address("tcp://10.0.0.2:7100");
  reached->set_name("s1");
  auto* not_reached = worker->add_peers();
  not_reached->set_address("tcp://10.0.0.2:7101");
  not_reached->set_name("s1");
  not_reached->set_error("connection timed out");
  const std::string text = NodesText(nodes);
  EXPECT_EQ(text.substr(text.find("worker w2")),
            "worker w2 (10.0.0.5) cannot reach server s1 at tcp://10.0.0.2:7101: connection timed "
            "out\n");
  const auto json = nlohmann::json::parse(NodesJson(nodes))["daemons"][0]["peers"];
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["error"], "");
  EXPECT_EQ(json[1]["address"], "tcp://10.0.0.2:7101");
  EXPECT_EQ(json[1]["name"], "s1");
  EXPECT_EQ(json[1]["error"], "connection timed out");
}

TEST(Render, ARingSaysItsAlgorithmAndWhatItWasChosenBy) {
  proto::JobStatus job;
  job.set_exchange("RING");
  job.mutable_ring()->set_algorithm(proto::AllReduce::RING);
  EXPECT_THAT(JobText(job), testing::HasSubstr("RING, ring\n"));
  job.mutable_ring()->set_algorithm(proto::AllReduce::HALVING_DOUBLING);
  job.mutable_ring()->set_latency_us(35.2);
  job.mutable_ring()->set_bytes_per_s(1.21e9);
  EXPECT_THAT(JobText(job),
              testing::HasSubstr("RING, halving and doubling (links measured: 35 us, 1.21 GB/s)"));
}

}  // namespace
}  // namespace strata::cli
