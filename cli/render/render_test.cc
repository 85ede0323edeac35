#include "cli/render/render.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "cli/render/render_daemons.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

proto::JobStatus RenderJob() {
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
  EXPECT_EQ(JobsText({RenderJob()}),
            "JOB  NAME   STATE    MODE     MODEL   RANKS  STEP    ACCURACY  REASON\n"
            "3    lenet  running  lazy(2)  lenet5  4      50/100  -\n");
  EXPECT_EQ(JobsText({}), "no jobs\n");
}

TEST(Render, ShowsWhereAJobRunsAndItsShards) {
  std::string text = JobText(RenderJob());
  EXPECT_NE(text.find("job 3 (lenet): running\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  0     w0      0-3    50    -       -\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  s0      0      16      800     0        0           0        1.00 MB"),
            std::string::npos)
      << text;
}

TEST(Render, SaysHowGradientsAndWeightsTravel) {
  proto::JobStatus job = RenderJob();
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  encoding +push fp32, pull fp16\n"));
  const auto json = nlohmann::json::parse(JobJson(job));
  EXPECT_EQ(json["push"], "fp32");
  EXPECT_EQ(json["pull"], "fp16");
  job.mutable_job()->clear_pull();
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  encoding +fp32\n"));
}

TEST(Render, SaysWhichOptimizerAJobHas) {
  proto::JobStatus job = RenderJob();
  job.mutable_job()->mutable_optimizer()->mutable_sgd()->set_weight_decay(0.5);
  job.mutable_job()->mutable_optimizer()->set_clip_norm(2);
  EXPECT_THAT(JobText(job), testing::ContainsRegex(
                                "\n  optimizer +sgd \\{ weight_decay: 0.5 \\} clip_norm: 2\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["optimizer"],
            "sgd { weight_decay: 0.5 } clip_norm: 2");
}

TEST(Render, SaysWhichServersHoldAJobAndWhy) {
  proto::JobStatus job = RenderJob();
  EXPECT_THAT(JobText(job), testing::Not(testing::HasSubstr("placement")));
  job.set_placement("ON_WORKERS (AUTO): all nodes and servers are on one host");
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  placement +ON_WORKERS .AUTO.: all nodes"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["placement"], job.placement());
}

TEST(Render, SaysWhoseAJobIsWhereItHasAnOwner) {
  proto::JobStatus job = RenderJob();
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
  proto::JobStatus job = RenderJob();
  job.mutable_job()->set_connections(1);
  EXPECT_THAT(JobText(job), testing::Not(testing::HasSubstr("connections")));
  job.mutable_job()->set_connections(4);
  EXPECT_THAT(JobText(job), testing::ContainsRegex("\n  connections +4 to each peer\n"));
  EXPECT_EQ(nlohmann::json::parse(JobJson(job))["connections"], 4);
}

TEST(Render, SaysWhoHoldsAJobUp) {
  proto::JobStatus job = RenderJob();
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
  auto json = nlohmann::json::parse(JobJson(RenderJob()));
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["mode"], "lazy(2)");
  EXPECT_EQ(json["progress"]["step"], 50);
  EXPECT_EQ(json["shards"][0]["pushes"], 800);
  EXPECT_TRUE(json["shards"][0]["backup"].is_null()) << "none";
  EXPECT_EQ(json["nodes"][0]["daemon"], "w0");
  EXPECT_TRUE(json["progress"]["test_accuracy"].is_null()) << "not known yet";
  EXPECT_EQ(nlohmann::json::parse(JobsJson({RenderJob(), RenderJob()})).size(), 2u);
}

TEST(Render, WritesToJsonWhereASecondCopyIsAndWhetherItIsWhole) {
  proto::JobStatus job = RenderJob();
  job.mutable_shards(0)->set_backup("s1");
  job.mutable_shards(0)->set_backup_is_partial(true);
  const auto shard = nlohmann::json::parse(JobJson(job))["shards"][0];
  EXPECT_EQ(shard["backup"], "s1");
  EXPECT_EQ(shard["backup_is_partial"], true);
}

TEST(Render, WritesEachEventOfAJobAsALineOfJson) {
  proto::FollowEvent event;
  *event.mutable_status() = RenderJob();
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
  EXPECT_EQ(ClusterText(nodes, {RenderJob()}),
            "cluster c1\n  1 server with 2 shards, 1 worker with 4 slots (3 used)\n"
            "  1 job running, 0 queued, 1 in all\n");
  EXPECT_EQ(nlohmann::json::parse(ClusterJson(nodes, {RenderJob()}))["jobs"].size(), 1u);
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

proto::DrainReply OfServer(uint32_t left) {
  proto::DrainReply told;
  told.set_role(proto::SERVER);
  told.set_draining(true);
  told.set_drained(left == 0);
  told.set_shards_left(left);
  if (left == 0) return told;
  proto::DrainedJob* job = told.add_jobs();
  job->set_job_id(3);
  job->set_name("lenet");
  return told;
}

TEST(DrainText, SaysWhatIsLeftAndWhoStays) {
  proto::DrainReply told = OfServer(12);
  EXPECT_EQ(DrainText("s1", told), "s1 is being drained: 12 shards of 1 job to go\n");
  told.mutable_jobs(0)->set_stays("no other server takes it");
  told.set_note("no other server is left");
  EXPECT_EQ(DrainText("s1", told),
            "s1 is being drained: 12 shards of 1 job to go\n"
            "  job 3 (lenet) stays for now: no other server takes it\n"
            "  no other server is left\n");
  EXPECT_EQ(DrainText("s1", OfServer(0)), "s1 is drained: nothing is left there\n");
  EXPECT_EQ(DrainText("s1", proto::DrainReply()), "s1 is back in service\n");
  proto::DrainReply back;
  back.set_note("it only stands in for workers that are lost");
  EXPECT_EQ(DrainText("w9", back),
            "w9 is back in service: it only stands in for workers that are lost\n");
}

TEST(DrainText, CountsWhatHasMoved) {
  EXPECT_EQ(DrainProgress("s1", 12, OfServer(9)), "s1: 3 of 12 shards moved");
  EXPECT_EQ(DrainProgress("s1", 12, OfServer(14)), "s1: 0 of 14 shards moved")
      << "a job that was starting has come";
  proto::DrainReply stays = OfServer(1);
  stays.mutable_jobs(0)->set_stays("no other server takes it");
  EXPECT_EQ(DrainProgress("s1", 1, stays),
            "s1: 0 of 1 shard moved; job 3 (lenet) stays for now: no other server takes it");
  proto::DrainReply worker;
  worker.set_role(proto::WORKER);
  worker.set_draining(true);
  worker.set_nodes_left(1);
  EXPECT_EQ(DrainProgress("w1", 2, worker), "w1: 1 of 2 nodes ended");
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const proto::JobStatus& job) {
  std::vector<std::string> lines;
  for (const Row& row : CheckpointRows(job)) {
    lines.push_back(absl::StrJoin(row, "|"));
  }
  return lines;
}

proto::JobStatus Job() {
  proto::JobStatus job;
  job.mutable_job()->mutable_checkpoint()->set_dir("/c");
  job.mutable_job()->mutable_checkpoint()->set_every_steps(10);
  job.mutable_checkpoints();
  return job;
}

TEST(RenderCheckpoints, AJobWithoutAnySaysNothing) {
  EXPECT_THAT(Lines({}), IsEmpty());
  nlohmann::ordered_json json;
  AddCheckpoints({}, &json);
  EXPECT_TRUE(json.is_null());
}

TEST(RenderCheckpoints, NoneIsCompleteAtFirst) {
  EXPECT_THAT(Lines(Job()), ElementsAre("  checkpoints|every 10 steps to /c: none complete yet"));
  nlohmann::ordered_json json;
  AddCheckpoints(Job(), &json);
  EXPECT_EQ(json.dump(), R"({"checkpoints":{"dir":"/c","complete":0,"failed":0,"problem":"",)"
                         R"("passed_over":[]}})");
}

TEST(RenderCheckpoints, AllThatThereIsToSayIsSaid) {
  proto::JobStatus job = Job();
  proto::CheckpointStatus& checkpoints = *job.mutable_checkpoints();
  checkpoints.set_complete(2);
  checkpoints.set_newest_step(20);
  checkpoints.set_newest_ms(3661000);
  checkpoints.set_newest_bytes(2000);
  checkpoints.set_failed(1);
  checkpoints.set_problem("step 30: no space");
  checkpoints.set_writing_step(40);
  checkpoints.set_objects_written(1);
  checkpoints.set_objects(2);
  checkpoints.set_resumed_dir("/b");
  checkpoints.set_resumed_step(10);
  checkpoints.add_passed_over("clock-15: torn");
  proto::RestartStatus* restart = job.add_restarts();
  restart->set_failed_ms(3600000);
  restart->set_reason("boom");
  restart->set_step(10);
  EXPECT_THAT(Lines(job),
              ElementsAre("  goes on from|step 10 in /b", "  passed over|clock-15: torn",
                          "  checkpoints|every 10 steps to /c: newest of step 20 (2.00 kB at "
                          "01:01:01 UTC), 2 complete",
                          "|step 40: 1 of 2 objects written", "|1 failed: step 30: no space",
                          "  restart 1|01:00:00 UTC, from step 10: boom"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json.dump(),
            R"({"checkpoints":{"dir":"/c","complete":2,"failed":1,"problem":"step 30: no space",)"
            R"("newest":{"step":20,"written_ms":3661000,"bytes":2000},)"
            R"("writing":{"step":40,"objects_written":1,"objects":2},)"
            R"("resumed":{"dir":"/b","step":10},"passed_over":["clock-15: torn"]},)"
            R"("restarts":[{"failed_ms":3600000,"reason":"boom","step":10}]})");
}

TEST(RenderCheckpoints, AJobThatOnlyGoesOnSaysFromWhat) {
  proto::JobStatus job;
  job.mutable_checkpoints()->set_resumed_dir("/b");
  job.mutable_checkpoints()->set_resumed_step(10);
  EXPECT_THAT(Lines(job), ElementsAre("  goes on from|step 10 in /b"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json.dump(), R"({"checkpoints":{"resumed":{"dir":"/b","step":10},"passed_over":[]}})");
}

TEST(RenderCheckpoints, NodesThatJoinAndLeaveAreNamedWithTheStep) {
  proto::JobStatus job;
  proto::NodesChange* change = job.add_nodes_changes();
  change->set_decided_ms(3600000);
  change->set_step(40);
  change->add_joined(2);
  change->add_joined(3);
  change->add_left(0);
  change->set_ranks(3);
  change->set_reason("worker w1 is being drained");
  EXPECT_THAT(Lines(job),
              ElementsAre("  nodes 1|01:00:00 UTC, nodes 2, 3 join, node 0 leaves with step 40: "
                          "3 ranks: worker w1 is being drained"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json["nodes_changes"].dump(),
            R"([{"decided_ms":3600000,"step":40,"joined":[2,3],"left":[0],"ranks":3,)"
            R"("reason":"worker w1 is being drained"}])");
}

TEST(RenderCheckpoints, NodesThatWereReplacedAreNamedWithWhereTheyWent) {
  proto::JobStatus job;
  job.set_state(proto::RUNNING);
  proto::ReplacementStatus* one = job.add_replacements();
  one->set_lost_ms(3600000);
  one->set_node(2);
  one->set_from("w1");
  one->set_to("w3");
  one->set_step(118);
  one->set_reason("boom");
  proto::ReplacementStatus* waits = job.add_replacements();
  waits->set_lost_ms(3661000);
  waits->set_from("w2");
  waits->set_reason("w2 is lost");
  EXPECT_THAT(Lines(job),
              ElementsAre("  replaced 1|01:00:00 UTC, node 2 (w1 -> w3), from step 118: boom",
                          "  replaced 2|01:01:01 UTC, node 0 (w2, waits for another worker): "
                          "w2 is lost"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json["replacements"].dump(),
            R"([{"lost_ms":3600000,"reason":"boom","node":2,"from":"w1","to":"w3","step":118},)"
            R"({"lost_ms":3661000,"reason":"w2 is lost","node":0,"from":"w2","to":"","step":0}])");
  job.set_state(proto::FAILED);
  EXPECT_THAT(Lines(job)[1], testing::HasSubstr("node 0 (w2, no other worker): "));
}

const absl::Time kNow = absl::FromUnixSeconds(1800000000);  // 2027-01-15T08:00:00Z

proto::ListKeysReply Keys(const std::string& cluster, const std::string& authority) {
  proto::ListKeysReply keys;
  keys.set_cluster(cluster);
  keys.set_authority(authority);
  return keys;
}

proto::IssuedKey* AddWorker(const std::string& authority, proto::ListKeysReply* keys) {
  proto::IssuedKey* key = keys->add_keys();
  key->set_role("worker");
  key->set_name("w1");
  key->set_authority(authority);
  key->set_begins_ms(absl::ToUnixMillis(kNow - absl::Hours(1)));
  key->set_expires_ms(absl::ToUnixMillis(kNow + absl::Hours(1)));
  return key;
}

TEST(RenderKeys, NamesTheAuthorityByItsFingerprint) {
  EXPECT_EQ(KeysText(Keys("blue", "ab12"), kNow),
            "cluster blue\nauthority: SHA-256 ab12\nnobody has joined yet\n");
}

TEST(RenderKeys, SaysWhereAnotherAuthorityIssuesAndThatOnlyRevocationsAreKnown) {
  proto::ListKeysReply keys = Keys("blue", "");
  const std::string head =
      "cluster blue\nauthority: one of your own, which issues and renews certificates itself\n";
  EXPECT_EQ(KeysText(keys, kNow), head + "nobody's keys are revoked\n");
  AddWorker("", &keys)->set_revoked_ms(absl::ToUnixMillis(kNow));
  const std::string text = KeysText(keys, kNow);
  EXPECT_EQ(text.substr(0, head.size()), head);
  EXPECT_NE(text.find("revoked 2027-01-15 08:00 UTC"), std::string::npos) << text;
}

TEST(RenderKeys, SaysWhereThereAreNone) {
  EXPECT_EQ(KeysText(proto::ListKeysReply(), kNow),
            "no keys: `strata keys init` makes them in the coordinator's state\n");
}

TEST(RenderKeys, TellsGoodOldRevokedAndEndedApart) {
  proto::ListKeysReply keys = Keys("blue", "ab12");
  const auto state = [&](const std::string& authority, int64_t revoked_ms, absl::Time now) {
    keys.clear_keys();
    AddWorker(authority, &keys)->set_revoked_ms(revoked_ms);
    std::string text = KeysText(keys, now);
    text.pop_back();
    return text.substr(text.rfind("UTC  ") + 5);
  };
  EXPECT_EQ(state("ab12", 0, kNow), "good");
  EXPECT_EQ(state("cd34", 0, kNow), "good, of the old authority");
  EXPECT_EQ(state("ab12", 0, kNow + absl::Hours(2)), "ended");
  // A certificate that begins after the revocation is a new one.
  EXPECT_EQ(state("ab12", absl::ToUnixMillis(kNow - absl::Hours(2)), kNow), "good");
}

}  // namespace

}  // namespace strata::cli
