#include "tests/exchange/node_cluster.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/require.h"
#include "common/transport/region_memory.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "kernels/kernels.h"
#include "worker/aggregator/aggregator.h"

namespace strata::tests {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(120);

// Unique among all tests on this machine: two concurrent tests may have the same process id in
// different namespaces, but share the names of sockets.
std::string UniqueName() {
  static const uint32_t run = std::random_device()();
  static std::atomic<int> next = 0;
  return absl::StrCat("strata-exchange-test-", getpid(), "-", run, "-", next++);
}

absl::StatusOr<std::unique_ptr<client::Client>> Connect(const proto::Launch& launch) {
  const std::string path = absl::StrCat("/tmp/", UniqueName());
  std::ofstream(path) << launch.DebugString();
  auto client = client::Client::Connect(path);
  unlink(path.c_str());
  return client;
}

std::unique_ptr<transport::Endpoint> EndpointOf(const proto::Job& job) {
  transport::ZmqOptions options;
  if (job.same_host() == proto::Job::REGIONS) {
    options.new_memory = [] { return *transport::RegionMemory::Create(size_t{1} << 30); };
    options.memory = options.new_memory();
  }
  using transport::SealedEndpoint;
  return std::make_unique<SealedEndpoint>(*transport::CreateZmqEndpoint(options),
                                          SealedEndpoint::Unsealed::kOfOtherJobs);
}

proto::Launch MakeLaunch(const proto::JobRecord& record, const proto::LogicalNode& node,
                         const std::string& socket) {
  proto::Launch launch;
  *launch.mutable_record() = record;
  launch.mutable_record()->clear_placement();
  launch.set_node(node.node());
  launch.set_node_name(absl::StrCat("w", node.node()));
  launch.set_first_rank(node.first_rank());
  launch.set_local_ranks(node.ranks());
  launch.set_aggregator_socket(socket);
  return launch;
}

}  // namespace

NodeCluster::NodeCluster(const ClusterShape& shape, proto::Job job, uint64_t elements,
                         uint64_t samples_per_epoch)
    : shape_(shape) {
  job.set_ranks(shape.nodes * shape.ranks_per_node);
  FillDefaults(&job);
  record_.set_job_id(1);
  record_.set_token(4711);
  using proto::Job;
  if (job.protection() == Job::BY_CLUSTER) job.set_protection(Job::ENCRYPT);
  if (job.protection() != Job::PLAIN) record_.set_secret("a secret that has 32 bytes: here");
  record_.set_samples_per_epoch(samples_per_epoch);
  *record_.mutable_job() = job;
  record_.mutable_layout()->set_elements(elements);
  record_.mutable_view()->set_number(1);
  for (uint32_t n = 0; n < shape.nodes; ++n) {
    proto::LogicalNode* node = record_.mutable_view()->add_nodes();
    node->set_node(n);
    node->set_first_rank(n * shape.ranks_per_node);
    node->set_ranks(shape.ranks_per_node);
  }
  const ChunkMap map(elements, job.chunk_elements());
  proto::Placement* placement = record_.mutable_placement();
  placement->set_generation(1);
  placement->set_chunk_elements(job.chunk_elements());
  for (uint32_t c = 0; c < map.chunks() && shape.shards > 0; ++c) {
    placement->add_shard_of_chunk(c % shape.shards);
  }
  for (uint32_t s = 0; s < shape.shards; ++s) {
    shards_.push_back(std::make_unique<server::ShardThread>(
        server::ShardThread::Options(), kernels::Cpu(), EndpointOf(record_.job())));
    Keep(shards_[s]->Start());
    const std::string here = absl::StrCat("127.0.0.1:", shards_[s]->port());
    placement->add_shard_endpoints(
        absl::StrCat("tcp://", shape.reached_at ? shape.reached_at(shards_[s]->port()) : here));
  }
}

NodeCluster::~NodeCluster() = default;

void NodeCluster::Keep(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (result_.ok()) result_ = status;
}

void NodeCluster::StartNode(uint32_t node) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) abort();
  agents_.push_back(std::make_unique<FramedChannel>(UniqueFd(fds[0])));
  proto::Launch launch = MakeLaunch(record_, record_.view().nodes(node), UniqueName());
  launch.set_channel_fd(fds[1]);
  launch.set_device_plugin(shape_.device_plugin);
  launch.mutable_listen()->set_host("127.0.0.1");
  launch.mutable_listen()->set_advertise(shape_.reached_at ? "127.0.0.2" : "127.0.0.1");
  for (uint32_t r = 0; r < shape_.ranks_per_node; ++r) launch.add_devices(r % shape_.devices);
  aggregators_.emplace_back([this, launch] { Keep(worker::RunAggregator(launch, {})); });
  launch.set_channel_fd(-1);
  launches_.push_back(launch);
}

void NodeCluster::AddToRing(const std::string& endpoint) {
  int port = 0;
  STRATA_REQUIRE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port));
  if (shape_.reached_at) STRATA_REQUIRE(endpoint == "tcp://" + shape_.reached_at(port));
  record_.mutable_ring()->set_algorithm(proto::AllReduce::RING);
  record_.mutable_ring()->add_endpoints(endpoint);
}

// Plays the coordinator once every node is ready.
absl::Status NodeCluster::Begin() {
  for (const auto& agent : agents_) {
    proto::ChildMessage message;
    do {
      if (absl::Status status = agent->Receive(&message, kDeadline); !status.ok()) return status;
    } while (message.has_activity());
    if (!message.has_ready()) return absl::UnavailableError(message.failed());
    *record_.mutable_layout() = message.ready().layout();
    if (!message.ready().endpoint().empty()) AddToRing(message.ready().endpoint());
  }
  for (uint32_t s = 0; s < shards_.size(); ++s) {
    if (absl::Status status = shards_[s]->Install(record_, ShardId(s)); !status.ok()) return status;
  }
  for (const auto& agent : agents_) {
    proto::AgentMessage message;
    *message.mutable_run()->mutable_record() = record_;
    if (absl::Status status = agent->Send(message); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status NodeCluster::Run(const std::function<absl::Status(client::Client*)>& body) {
  for (uint32_t n = 0; n < shape_.nodes; ++n) StartNode(n);
  std::vector<std::thread> ranks;
  for (const proto::Launch& node : launches_) {
    for (uint32_t r = 0; r < node.local_ranks(); ++r) {
      proto::Launch launch = node;
      launch.set_rank(node.first_rank() + r);
      launch.set_local_rank(r);
      ranks.emplace_back([this, launch, body] {
        auto client = Connect(launch);
        Keep(client.ok() ? body(client->get()) : client.status());
      });
    }
  }
  const absl::Status begun = Begin();
  Keep(begun);
  if (!begun.ok()) agents_.clear();  // ends the aggregators, which end the ranks
  for (std::thread& rank : ranks) rank.join();
  for (std::thread& aggregator : aggregators_) aggregator.join();
  absl::MutexLock lock(&mutex_);
  return result_;
}

std::vector<uint64_t> NodeCluster::Pushes() {
  std::vector<uint64_t> pushes;
  for (const auto& shard : shards_) pushes.push_back(shard->Counters()[JobId(1)].pushes);
  return pushes;
}

absl::Status RunAlone(proto::Job job, const std::function<absl::Status(client::Client*)>& body) {
  job.set_ranks(1);
  job.set_exchange(proto::Job::NONE);
  FillDefaults(&job);
  proto::JobRecord record;
  *record.mutable_job() = job;
  proto::LogicalNode node;
  node.set_ranks(1);
  auto client = Connect(MakeLaunch(record, node, ""));
  return client.ok() ? body(client->get()) : client.status();
}

}  // namespace strata::tests
