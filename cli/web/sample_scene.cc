#include "cli/web/sample_scene.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::cli::testing {
namespace {

void AddResource(const std::string& name, uint64_t used, uint64_t limit,
                 proto::DaemonStatus* daemon) {
  proto::Resource* resource = daemon->add_resources();
  resource->set_name(name);
  resource->set_used(used);
  resource->set_limit(limit);
}

void AddRefusal(const std::string& cause, uint64_t count, proto::DaemonStatus* daemon) {
  proto::Refusal* refusal = daemon->add_refusals();
  refusal->set_cause(cause);
  refusal->set_count(count);
}

void AddNodes(proto::ListNodesReply* nodes) {
  nodes->mutable_coordinator()->set_name("coordinator");
  AddResource("connections", 4, 4096, nodes->mutable_coordinator());
  AddRefusal("malformed", 1, nodes->mutable_coordinator());
  proto::DaemonStatus* server = nodes->add_daemons();
  server->set_name("s1");
  server->set_role(proto::SERVER);
  server->set_alive(true);
  server->set_last_heartbeat_ms_ago(250);
  AddResource("memory bytes", 3'000'000, 8'000'000, server);
  AddResource("processes", 3, 0, server);
  AddRefusal("unknown job", 2, server);
  AddRefusal("frame of a shard that has left", 3, server);
  server->mutable_refusals()->rbegin()->set_expected(true);
  proto::DaemonStatus* worker = nodes->add_daemons();
  worker->set_name("w2");
  worker->set_role(proto::WORKER);
  worker->set_alive(false);
  worker->set_draining(true);
  worker->set_last_heartbeat_ms_ago(12'500);
  worker->set_slots(4);
  worker->set_slots_used(2);
  worker->set_gpu_slots(2);
  worker->set_gpu_slots_used(1);
}

void SetProgress(proto::JobStatus* job) {
  proto::Progress* progress = job->mutable_progress();
  progress->set_step(57);
  progress->set_total_steps(100);
  progress->set_epoch(1.25);
  progress->set_epochs(3);
  progress->set_samples(14592);
  progress->set_samples_per_s(1234.5);
  progress->set_loss(0.5);
  progress->set_test_accuracy(0.875);
  progress->set_bytes_per_step(4096);
  progress->set_eta_s(83);
  job->set_hidden_share(0.75);
}

void AddShard(proto::JobStatus* job, const std::string& daemon, uint32_t index) {
  proto::JobShardStatus* shard = job->add_shards();
  shard->set_daemon(daemon);
  shard->set_shard(index);
  shard->set_memory_bytes(1'000'000);
  shard->set_memory_limit_bytes(2'000'000);
  proto::ShardCounters* counters = shard->mutable_counters();
  counters->set_pushes(114);
  counters->set_answers(112);
  counters->set_duplicates(3);
  counters->set_refused(1);
  counters->set_bytes_received(9'007'199'254'740'991);
  counters->set_bytes_sent(700'000);
}

void AddNode(proto::JobStatus* job, const std::string& daemon, uint32_t index) {
  proto::JobNodeStatus* node = job->add_nodes();
  node->set_node(index);
  node->set_daemon(daemon);
  node->set_first_rank(2 * index);
  node->set_ranks(2);
  node->set_memory_bytes(500'000);
  node->set_memory_limit_bytes(600'000);
  node->set_gpu_memory_bytes(300'000);
  node->set_gpu_memory_limit_bytes(400'000);
}

void AddFaults(absl::Time now, proto::JobStatus* job) {
  proto::CheckpointStatus* checkpoints = job->mutable_checkpoints();
  checkpoints->set_complete(2);
  checkpoints->set_failed(1);
  checkpoints->set_newest_ms(absl::ToUnixMillis(now - absl::Seconds(90)));
  job->add_restarts()->set_reason("rank 3 ended");
  job->add_replacements()->set_node(1);
  proto::Wait* wait = job->add_waits();
  wait->set_node(1);
  wait->set_rank(3);
  wait->set_daemon("w2");
  wait->set_seconds(12);
  wait->set_doing("stopped by a signal");
}

CoursePoint NewestPoint() {
  CoursePoint point;
  point.step = 57;
  point.waiting_share = 0.25;
  point.hidden_share = 0.75;
  point.lr = 0.05;
  point.staleness = {100, 12, 2};
  return point;
}

void SetNames(uint32_t id, proto::JobStatus* job) {
  job->set_job_id(id);
  job->set_name("lenet");
  job->set_mode("lazy(2)");
  job->set_tenant("vision");
  job->set_state(proto::RUNNING);
}

}  // namespace

ClusterScene SampleScene(absl::Time now) {
  ClusterScene scene;
  scene.taken = now - absl::Milliseconds(500);
  scene.coordinator = "127.0.0.1:7070";
  AddNodes(&scene.nodes);
  auto job = std::make_shared<JobScene>();
  SetNames(3, &job->status);
  job->status.set_ranks(4);
  SetProgress(&job->status);
  AddNode(&job->status, "w2", 1);
  AddShard(&job->status, "s1", 0);
  AddFaults(now, &job->status);
  job->course.push_back(NewestPoint());
  job->ranks[3].push_back({.end_step = 57, .waiting_share = 0.125, .samples_per_s = 300});
  scene.jobs.push_back(std::move(job));
  return scene;
}

ClusterScene LargeScene(absl::Time now, int daemons, int jobs) {
  ClusterScene scene;
  scene.taken = now;
  for (int i = 0; i < daemons; ++i) {
    proto::DaemonStatus* daemon = scene.nodes.add_daemons();
    daemon->set_name(absl::StrCat("daemon-", i));
    daemon->set_role(i % 2 == 0 ? proto::WORKER : proto::SERVER);
    daemon->set_alive(true);
    for (const char* name :
         {"connections", "file descriptors", "frame bytes", "memory bytes", "processes"}) {
      AddResource(name, 10, 1000, daemon);
    }
    for (const char* cause : {"malformed", "before HELLO", "unknown job"}) {
      AddRefusal(cause, 1, daemon);
    }
  }
  for (int id = jobs; id > 0; --id) {
    auto job = std::make_shared<JobScene>();
    SetNames(static_cast<uint32_t>(id), &job->status);
    SetProgress(&job->status);
    AddFaults(now, &job->status);
    for (uint32_t i = 0; i < 8; ++i) AddNode(&job->status, absl::StrCat("daemon-", 2 * i), i);
    for (uint32_t i = 0; i < 8; ++i) AddShard(&job->status, absl::StrCat("daemon-", 2 * i + 1), 0);
    for (uint32_t rank = 0; rank < 16; ++rank) job->ranks[rank].push_back(RankWindow{});
    job->course.push_back(NewestPoint());
    scene.jobs.push_back(std::move(job));
  }
  return scene;
}

}  // namespace strata::cli::testing
