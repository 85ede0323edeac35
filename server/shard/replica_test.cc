#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/job/job_keys.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"
#include "server/shard/shard_thread.h"
#include "server/testing/shard_harness.h"
#include "server/testing/sim_copy.h"

// Nodes and a shard in two copies over a seeded random network that duplicates frames and cuts
// connections. Copies die, pause and continue, or are partitioned; a remaining copy becomes the
// primary, and fills another one. Each push must count exactly once. In sync, with double
// buffering, and with local steps in lockstep, the weights must have the bits of a run without
// faults.

namespace strata::server {

namespace {

// Nodes of a job of one shard over a simulated network. Each repeats its messages until they are
// answered, over connections that it renews now and then, and goes where it is told the shard is.
//
// Threads: one.
class SimNodes {
 public:
  static constexpr uint32_t kNodes = 4;
  static constexpr uint32_t kChunks = 2;
  static constexpr uint64_t kClocks = 12;
  static constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push
  // Confirmations that nodes get: first weights, pushes, retirement and final weights.
  static constexpr uint64_t kConfirmations = kNodes * (kChunks * (kClocks + 2) + 1);

  struct Options {
    bool counts = false;   // each push adds 1 to an element of its own; otherwise they train
    uint32_t divisor = 1;  // for sums that count
    // Nodes push a step's chunks for the least version that they had of any of them, as in a job
    // with a quorum, and begin a step when all of the last one has been answered.
    bool has_rounds = false;
    std::string address;  // of the shard, in generation 2
    std::function<void()> on_confirmed;
  };

  SimNodes(transport::SimNetwork* network, proto::JobRecord record, Options options)
      : network_(network), record_(std::move(record)), options_(std::move(options)) {
    for (uint32_t node = 0; node < kNodes; ++node) {
      transport::SimEndpoint::Options endpoint;
      endpoint.name = "node";
      endpoint.host = 2;
      endpoint.addresses_are_names = true;
      endpoint.on_ready = [this, node] { TurnOfNode(node); };
      nodes_[node].endpoint = std::make_unique<transport::SimEndpoint>(network, endpoint);
      nodes_[node].address = options_.address;
    }
  }

  void Begin() {
    for (uint32_t node = 0; node < kNodes; ++node) Tick(node);
  }
  // Outdated news changes nothing.
  void Move(uint32_t id, const std::string& address, uint32_t generation) {
    Node& node = nodes_[id];
    if (node.generation >= generation) return;
    node.generation = generation;
    if (std::exchange(node.address, address) != address) Reconnect(&node);
  }
  // Returns whether every node has the final weights.
  bool Done() const {
    return absl::c_all_of(nodes_, [](const Node& node) {
      return absl::c_none_of(node.chunks, [](const Chunk& c) { return c.final_weights.empty(); });
    });
  }
  std::vector<float> Final() const {
    std::vector<float> all;
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      const std::vector<float>& weights = nodes_[0].chunks[chunk].final_weights;
      for (const Node& node : nodes_) EXPECT_EQ(node.chunks[chunk].final_weights, weights);
      all.insert(all.end(), weights.begin(), weights.end());
    }
    return all;
  }
  std::string Describe() const {
    std::string text;
    for (const Node& node : nodes_) {
      text += node.greeted ? ", greeted" : ", not greeted";
      text += node.retired ? " and retired:" : ":";
      for (const Chunk& chunk : node.chunks) {
        text += (chunk.seeded ? " " : " first weights ") + std::to_string(chunk.clock);
      }
    }
    return text;
  }

 private:
  using Op = wire::Op;
  // A node's side of one chunk.
  struct Chunk {
    bool seeded = false;
    uint64_t clock = 0;  // of the current push; kClocks: done
    bool waiting = false;
    uint64_t base_version = 0;
    std::vector<float> final_weights;
  };
  struct Node {
    std::unique_ptr<transport::SimEndpoint> endpoint;
    std::optional<transport::ConnectionId> connection;
    bool greeted = false;
    bool retired = false;
    std::string address;
    uint32_t generation = 2;
    uint64_t round = 0;  // of the current step
    std::vector<Chunk> chunks = std::vector<Chunk>(kChunks);
  };

  void Tick(uint32_t id);
  static void Reconnect(Node* node);
  static void Send(Node* node, wire::Frame frame);
  void Say(uint32_t id, uint32_t chunk);
  std::vector<float> SumOf(uint32_t node, uint32_t chunk, uint64_t clock) const;
  void TurnOfNode(uint32_t id);
  // Begins a round if all of the previous step has been answered.
  static void BeginRound(Node* node);
  void Deliver(const wire::Frame& frame, Node* node);

  transport::SimNetwork* const network_;
  const proto::JobRecord record_;
  const Options options_;
  std::array<Node, kNodes> nodes_;
};

void SimNodes::Tick(uint32_t id) {
  Node& node = nodes_[id];
  if (!node.connection || network_->random().Chance(0.02)) Reconnect(&node);
  const bool all_done =
      absl::c_all_of(node.chunks, [](const Chunk& c) { return c.clock == kClocks; });
  if (!node.greeted) {
    Send(&node, HelloFrame(record_, id));
  } else if (all_done && !node.retired) {
    Send(&node, ControlFrame(record_, Op::kRetire, id, 0, kClocks));
  } else {
    Say(id, static_cast<uint32_t>(network_->random().Below(kChunks)));
  }
  const absl::Duration pause =
      network_->random().Between(absl::Microseconds(50), absl::Microseconds(500));
  network_->After(pause, [this, id] { Tick(id); });
}

void SimNodes::Reconnect(Node* node) {
  if (node->connection) node->endpoint->Close(*node->connection);
  node->greeted = false;
  node->connection = *node->endpoint->Connect(node->address);
}
void SimNodes::Send(Node* node, wire::Frame frame) {
  frame.header.generation = node->generation;
  EXPECT_EQ(node->endpoint->Send(*node->connection, frame), absl::OkStatus());
}

void SimNodes::Say(uint32_t id, uint32_t chunk) {
  Chunk& state = nodes_[id].chunks[chunk];
  if (!state.seeded) {
    const std::vector<float> first(kElements, options_.counts ? 0.0f : 0.25f);
    return Send(&nodes_[id], InitFrame(record_, id, chunk, first));
  }
  if (nodes_[id].retired) {
    return Send(&nodes_[id], ControlFrame(record_, Op::kCut, id, chunk, kClocks));
  }
  const auto is_behind = [&](const Chunk& other) { return other.clock < state.clock; };
  if (state.clock == kClocks) return;
  if (options_.has_rounds && absl::c_any_of(nodes_[id].chunks, is_behind)) return;
  state.waiting = true;
  const uint64_t base = options_.has_rounds ? nodes_[id].round : state.base_version;
  Send(&nodes_[id],
       PushFrame(record_, id, chunk, state.clock, SumOf(id, chunk, state.clock), 1, base));
}

std::vector<float> SimNodes::SumOf(uint32_t node, uint32_t chunk, uint64_t clock) const {
  std::vector<float> sum(kElements, 0.0f);
  if (options_.counts) {
    sum[node * kClocks + clock] = -1.0f * options_.divisor;
    return sum;
  }
  for (uint32_t i = 0; i < kElements; ++i) {
    sum[i] = 0.01f * static_cast<float>((i * 31 + node * 17 + chunk * 5 + clock * 7) % 97);
  }
  return sum;
}

void SimNodes::TurnOfNode(uint32_t id) {
  Node& node = nodes_[id];
  std::vector<transport::Event> events;
  node.endpoint->Poll(absl::InfiniteDuration(), &events);
  for (const transport::Event& event : events) {
    if (event.connection != node.connection) continue;
    if (event.kind != transport::Event::Kind::kFrame) {
      node.connection.reset();
      node.greeted = false;
    } else if (event.frame.header.op == Op::kHelloOk) {
      node.greeted = true;
    } else {
      Deliver(event.frame, &node);
    }
  }
}

void SimNodes::BeginRound(Node* node) {
  uint64_t least = UINT64_MAX;
  for (const Chunk& chunk : node->chunks) {
    if (chunk.clock != node->chunks[0].clock) return;
    least = std::min(least, chunk.base_version);
  }
  node->round = least;
}

void SimNodes::Deliver(const wire::Frame& frame, Node* node) {
  const wire::Header& header = frame.header;
  Chunk& state = node->chunks[header.chunk];
  switch (header.op) {
    case Op::kInitOk:
      if (!std::exchange(state.seeded, true)) options_.on_confirmed();
      return;
    case Op::kAnswer:
      if (!state.waiting || header.clock != state.clock) return;
      state.waiting = false;
      ++state.clock;
      state.base_version = header.version;
      BeginRound(node);
      return options_.on_confirmed();
    case Op::kRetireOk:
      if (!std::exchange(node->retired, true)) options_.on_confirmed();
      return;
    case Op::kCutAnswer:
      if (state.final_weights.empty()) options_.on_confirmed();
      state.final_weights = ToFloats(frame);
      return;
    default:
      EXPECT_EQ(header.op, Op::kRetry);
  }
}

// Two copies of a shard on threads, with sockets between them.

constexpr uint32_t kNodes = SimNodes::kNodes;
constexpr size_t kElements = SimNodes::kElements * SimNodes::kChunks;
constexpr char kAddresses[3][8] = {"first", "second", "third"};
constexpr int kEventsMax = 400000;

// The fate of the two copies.
enum class Fate {
  kNothing,
  kPrimaryDies,
  kBackupDies,
  kPrimaryStops,
  kTheyAreKeptApart,
  // The remaining copy fills a third one, and then dies, too.
  kOneAfterTheOther,
  kBackupThenPrimary,
};
bool TwoDie(Fate fate) {
  return fate == Fate::kOneAfterTheOther || fate == Fate::kBackupThenPrimary;
}

bool HasQuorum(const std::string& mode) { return mode.find("quorum") != std::string::npos; }

class Simulation {
 public:
  Simulation(const std::string& mode, const std::string& optimizer, Fate fate, uint32_t seed)
      : fate_(fate),
        waits_(seed % 2 == 0 && !TwoDie(fate)),
        network_(seed),
        copies_{SimCopy(&network_, kAddresses[0], 0), SimCopy(&network_, kAddresses[1], 1),
                SimCopy(&network_, kAddresses[2], 3)},
        record_(Record(mode, optimizer)),
        // Per clock the divisor is the samples of all nodes, otherwise only a push's own.
        nodes_(&network_, record_,
               {.counts = optimizer == "sgd {}",
                .divisor = mode == "async {}" ? 1 : kNodes,
                .has_rounds = HasQuorum(mode),
                .address = kAddresses[0],
                .on_confirmed = [this] { OnConfirmed(); }}) {
    EXPECT_TRUE(copies_[0].core().Install(record_, ShardId(0)).ok());
    EXPECT_TRUE(copies_[1].core().Install(record_, ShardId(0), {}, ShardCopy::kBackup).ok());
    if (fate == Fate::kNothing) return;
    network_.set_faults({.duplicate = 0.1,
                         .break_both = 0.005,
                         .break_one = 0.005,
                         .notice_max = absl::Milliseconds(20)});
  }

  // Runs until every node has the final weights.
  void Run() {
    nodes_.Begin();
    TickCopies();
    fate_after_ = network_.random().Below(SimNodes::kConfirmations);
    for (int events = 0; !nodes_.Done(); ++events) {
      ASSERT_LT(events, kEventsMax)
          << "no progress: " << (met_fate_ ? "after" : "before") << " fate" << nodes_.Describe();
      ASSERT_TRUE(network_.RunOne());
      if (testing::Test::HasFailure()) return;
    }
  }

  std::vector<float> Final() const { return nodes_.Final(); }
  bool met_fate() const { return met_fate_; }
  int filled() const { return filled_; }

 private:
  proto::JobRecord Record(const std::string& mode, const std::string& optimizer) const {
    JobOptions options;
    options.ranks.assign(kNodes, 1);
    options.elements = kElements;
    options.chunk_elements = SimNodes::kElements;
    options.batch_per_rank = 1;
    options.job_text = "optimizer { " + optimizer + " } schedule { base_lr: 1 } consistency { " +
                       mode + " } replicas: 1" + (waits_ ? " while_unprotected: WAIT" : "");
    proto::JobRecord record = MakeRecord(options);
    record.mutable_placement()->set_shard_endpoints(0, kAddresses[0]);
    record.mutable_placement()->add_backup_endpoints(kAddresses[1]);
    return record;
  }
  JobId job() const { return JobId(record_.job_id()); }

  // Plays the coordinator, which takes its time, as do its messages to nodes.
  void MeetFate() {
    met_fate_ = !nodes_.Done();
    switch (fate_) {
      case Fate::kNothing:
        return;
      case Fate::kPrimaryDies:
      case Fate::kOneAfterTheOther:
        copies_[0].Die();
        return Later([this] { PromoteTheBackup(); });
      case Fate::kBackupDies:
      case Fate::kBackupThenPrimary:
        copies_[1].Die();
        return Later([this] { ContinueWithoutBackup(); });
      case Fate::kPrimaryStops:
        copies_[0].Stop();
        return Later([this] {
          PromoteTheBackup();
          Later([this] { copies_[0].GoOn(); });
        });
      case Fate::kTheyAreKeptApart:
        network_.CutPair(0, 1, true);
        return Later([this] { PromoteTheBackup(); });
    }
  }

  void PromoteTheBackup() {
    Promote(1, 3);
    if (waits_ || TwoDie(fate_)) Later([this] { FillTheThird(1, 4); });
  }
  void ContinueWithoutBackup() {
    copies_[0].Do([this](auto* actions) {
      EXPECT_EQ(copies_[0].core().ContinueWithoutBackup(job(), ShardId(0), 3, actions),
                absl::OkStatus());
    });
    // Nodes that do not know yet are answered all the same.
    Later([this] { nodes_.Move(0, kAddresses[0], 3); });
    if (waits_ || TwoDie(fate_)) Later([this] { FillTheThird(0, 4); });
  }
  void Promote(size_t copy, uint32_t generation) {
    copies_[copy].Do([&](auto* actions) {
      EXPECT_EQ(copies_[copy].core().Promote(job(), ShardId(0), generation, actions),
                absl::OkStatus());
    });
    for (uint32_t node = 0; node < kNodes; ++node) {
      Later([this, node, copy, generation] { nodes_.Move(node, kAddresses[copy], generation); });
    }
  }

  // The remaining primary fills a third copy until it is complete; then that primary dies, too, if
  // the test wants it.
  void FillTheThird(size_t primary, uint32_t generation) {
    proto::JobRecord record = record_;
    record.mutable_placement()->set_shard_endpoints(0, kAddresses[primary]);
    record.mutable_placement()->set_backup_endpoints(0, kAddresses[2]);
    record.mutable_placement()->clear_shard_generations();
    record.mutable_placement()->add_shard_generations(generation);
    EXPECT_TRUE(copies_[2].core().Install(record, ShardId(0), {}, ShardCopy::kEmptyBackup).ok());
    std::vector<ShardAction> none;
    EXPECT_FALSE(copies_[2].core().Promote(job(), ShardId(0), 9, &none).ok())
        << "what is not whole cannot take over";
    Fill(primary, generation, /*is_whole=*/false);
    WaitUntilWhole(primary, generation);
  }
  void Fill(size_t primary, uint32_t generation, bool is_whole) {
    copies_[primary].Do([&](auto* actions) {
      EXPECT_EQ(copies_[primary].core().FillBackup(job(), ShardId(0), generation, kAddresses[2],
                                                   is_whole, actions),
                absl::OkStatus());
    });
  }
  void WaitUntilWhole(size_t primary, uint32_t generation) {
    const std::vector<BackupState> states = copies_[primary].core().BackupStates();
    ASSERT_EQ(states.size(), 1u);
    EXPECT_EQ(states[0].generation, generation);
    ASSERT_EQ(states[0].refusal, absl::OkStatus());
    if (states[0].chunks_missing > 0) {
      return Later([this, primary, generation] { WaitUntilWhole(primary, generation); });
    }
    ++filled_;
    Fill(primary, generation, /*is_whole=*/true);
    if (!TwoDie(fate_)) return;
    network_.After(network_.random().Between(absl::Milliseconds(0), absl::Milliseconds(8)),
                   [this, primary, generation] {
                     copies_[primary].Die();
                     Later([this, generation] { Promote(2, generation + 1); });
                   });
  }

  void Later(std::function<void()> what) {
    network_.After(network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(20)),
                   std::move(what));
  }
  void TickCopies() {
    for (SimCopy& copy : copies_) copy.OnTime();
    network_.After(absl::Milliseconds(1), [this] { TickCopies(); });
  }
  void OnConfirmed() {
    if (confirmed_++ == fate_after_) network_.After(absl::ZeroDuration(), [this] { MeetFate(); });
  }

  const Fate fate_;
  const bool waits_;  // nodes are answered only while there are two copies: when one is lost,
                      // another is made
  transport::SimNetwork network_;
  std::array<SimCopy, 3> copies_;
  const proto::JobRecord record_;
  SimNodes nodes_;
  uint64_t confirmed_ = 0, fate_after_ = 0;
  bool met_fate_ = false;
  int filled_ = 0;
};

constexpr Fate kFates[] = {Fate::kPrimaryDies,      Fate::kBackupDies,
                           Fate::kPrimaryStops,     Fate::kTheyAreKeptApart,
                           Fate::kOneAfterTheOther, Fate::kBackupThenPrimary};

// In a job with a quorum: returns the number of pushes in clocks that fewer than all nodes closed.
// Fails the test if a push does not count exactly once.
uint32_t InSmallClocks(const std::vector<float>& weights) {
  uint32_t pushes = 0;
  for (size_t begin = 0; begin < weights.size(); begin += SimNodes::kElements) {
    const auto chunk = absl::MakeConstSpan(weights).subspan(begin, SimNodes::kElements);
    for (const auto& [size, count] : PushesByClockSize(chunk, kNodes)) {
      if (size < kNodes) pushes += count;
    }
  }
  return pushes;
}

class ReplicaExactlyOnce : public testing::TestWithParam<std::string> {};

TEST_P(ReplicaExactlyOnce, WhicheverCopyIsLeft) {
  int met = 0, filled = 0;
  uint32_t in_small_clocks = 0;
  for (const Fate fate : kFates) {
    for (uint32_t seed = 1; seed <= 120; ++seed) {
      SCOPED_TRACE("fate " + std::to_string(static_cast<int>(fate)) + " seed " +
                   std::to_string(seed));
      Simulation simulation(GetParam(), "sgd {}", fate, seed);
      simulation.Run();
      ASSERT_FALSE(HasFailure());
      if (HasQuorum(GetParam())) {
        in_small_clocks += InSmallClocks(simulation.Final());
      } else {
        EXPECT_EQ(simulation.Final(), std::vector<float>(kElements, 1.0f));
      }
      ASSERT_FALSE(HasFailure());
      met += simulation.met_fate();
      filled += simulation.filled();
    }
  }
  EXPECT_GT(met, 600);
  EXPECT_GT(filled, 300);
  if (HasQuorum(GetParam())) {
    EXPECT_GT(in_small_clocks, 1000) << "clocks close without waiting for all";
  }
}

std::string ToString(const testing::TestParamInfo<std::string>& info) {
  const char* names[] = {"Sync", "Lazy", "LazyOnArrival", "Async", "Quorum", "QuorumWithGrace"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplicaExactlyOnce,
                         testing::Values("sync {}", "lazy { staleness: 2 }",
                                         "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}",
                                         "lazy { quorum { nodes: 2 } }",
                                         "lazy { quorum { nodes: 3 grace_ms: 1 } }"),
                         ToString);

struct Lockstep {
  const char* mode;
  const char* optimizer;
};
void PrintTo(const Lockstep& job, std::ostream* out) { *out << job.mode << " " << job.optimizer; }
class Replica : public testing::TestWithParam<Lockstep> {};

TEST_P(Replica, InSyncTheWeightsHaveTheBitsOfAnUndisturbedRun) {
  const auto& [mode, optimizer] = GetParam();
  Simulation undisturbed(mode, optimizer, Fate::kNothing, 1);
  undisturbed.Run();
  const std::vector<float> expected = undisturbed.Final();
  for (const Fate fate : kFates) {
    for (uint32_t seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE("fate " + std::to_string(static_cast<int>(fate)) + " seed " +
                   std::to_string(seed));
      Simulation simulation(mode, optimizer, fate, seed);
      simulation.Run();
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(simulation.Final(), expected);
    }
  }
}

// With local steps servers apply `outer` to the nodes' changes, whatever the nodes' own optimizer.
INSTANTIATE_TEST_SUITE_P(Modes, Replica,
                         testing::Values(Lockstep{"sync {}", "momentum_sgd { momentum: 0.9 }"},
                                         Lockstep{"sync {}", "adamw {}"},
                                         Lockstep{"preset: 'delay1'",
                                                  "momentum_sgd { momentum: 0.9 }"},
                                         Lockstep{"preset: 'local(2)'", "adamw {}"},
                                         Lockstep{"preset: 'diloco(2)'", "adamw {}"}));

using transport::SealedEndpoint;
using wire::Frame;
using wire::Op;

constexpr uint32_t kThreadElements = 4;

std::unique_ptr<transport::Endpoint> NewEndpoint() {
  return std::make_unique<SealedEndpoint>(
      transport::CreateZmqEndpoint(transport::ZmqOptions()).value(),
      SealedEndpoint::Unsealed::kOfOtherJobs);
}

class ReplicaThreadTest : public testing::TestWithParam<bool> {
 protected:
  ReplicaThreadTest() {
    for (auto& copy : copies_) {
      copy = std::make_unique<ShardThread>(ShardThread::Options(), kernels::Cpu(), NewEndpoint());
      EXPECT_TRUE(copy->Start().ok());
    }
    record_ = RecordOf(7);
  }

  // One node, one chunk.
  proto::JobRecord RecordOf(uint32_t job) const {
    JobOptions options;
    options.job = job;
    options.ranks = {1};
    options.elements = options.chunk_elements = kThreadElements;
    options.batch_per_rank = 1;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 }";
    proto::JobRecord record = MakeRecord(options);
    record.mutable_placement()->set_shard_endpoints(0, Address(0));
    record.mutable_placement()->add_backup_endpoints(Address(1));
    if (GetParam()) {
      record.mutable_job()->set_protection(proto::Job::ENCRYPT);
      record.set_secret(std::string(32, static_cast<char>('a' + job)));
    }
    return record;
  }
  std::string Address(size_t copy) const {
    return absl::StrFormat("tcp://127.0.0.1:%d", copies_[copy]->port());
  }

  SocketNode NodeAt(size_t copy, const proto::JobRecord& record) const {
    auto endpoint = NewEndpoint();
    if (const auto keys = KeysOf(record, ""); keys.value().has_value()) {
      EXPECT_TRUE(endpoint->Protect(JobId(record.job_id()), **keys).ok());
    }
    return SocketNode(record, 0, copies_[copy]->port(), std::move(endpoint));
  }
  // Adds 1 to each weight, by push number `clock`.
  static void Push(const proto::JobRecord& record, SocketNode* node, uint64_t clock) {
    node->Send(
        PushFrame(record, 0, 0, clock, std::vector<float>(kThreadElements, -1.0f), 1, clock));
  }
  static void ExpectAnswer(SocketNode* node, uint64_t clock) {
    const Frame answer = node->Receive();
    EXPECT_EQ(answer.header.op, Op::kAnswer);
    EXPECT_EQ(answer.header.clock, clock);
    EXPECT_EQ(ToFloats(answer), std::vector<float>(kThreadElements, static_cast<float>(clock + 1)));
  }

  std::unique_ptr<ShardThread> copies_[2];
  proto::JobRecord record_;
};

TEST_P(ReplicaThreadTest, TheBackupGoesOnWhereThePrimaryEnded) {
  // With two jobs per copy, each job's line is its own.
  const proto::JobRecord records[] = {record_, RecordOf(8)};
  for (const proto::JobRecord& record : records) {
    ASSERT_TRUE(copies_[0]->Install(record, ShardId(0)).ok());
    ASSERT_TRUE(copies_[1]->Install(record, ShardId(0), ShardCopy::kBackup).ok());
  }
  for (proto::JobRecord record : records) {
    SocketNode node = NodeAt(0, record);
    node.Send(InitFrame(record, 0, 0, std::vector<float>(kThreadElements, 0.0f)));
    EXPECT_EQ(node.Receive().header.op, Op::kInitOk);
    for (uint64_t clock = 0; clock < 3; ++clock) {
      Push(record, &node, clock);
      ExpectAnswer(&node, clock);
    }
  }
  copies_[0]->Stop();
  for (proto::JobRecord record : records) {
    const absl::Status promoted = copies_[1]->Call([&](ShardCore& core, auto* actions) {
      return core.Promote(JobId(record.job_id()), ShardId(0), 3, actions);
    });
    ASSERT_TRUE(promoted.ok());
    record.mutable_placement()->set_generation(3);
    SocketNode node = NodeAt(1, record);
    Push(record, &node, 2);  // as if its answer had been lost
    ExpectAnswer(&node, 2);
    Push(record, &node, 3);
    ExpectAnswer(&node, 3);
  }
}

TEST_P(ReplicaThreadTest, WithoutItsBackupAPrimaryConfirmsNothingUntilItIsToldToGoOnAlone) {
  ASSERT_TRUE(copies_[0]->Install(record_, ShardId(0)).ok());
  copies_[1]->Stop();
  SocketNode node = NodeAt(0, record_);
  node.Send(InitFrame(record_, 0, 0, std::vector<float>(kThreadElements, 0.0f)));
  EXPECT_EQ(node.Receive(absl::Milliseconds(300)).header.op, Op::kHello) << "it is confirmed";
  const std::vector<BackupState> states = copies_[0]->BackupStates();
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].job, JobId(7));
  EXPECT_LT(states[0].waits_since, absl::InfiniteFuture());
  const absl::Status alone = copies_[0]->Call([&](ShardCore& core, auto* actions) {
    return core.ContinueWithoutBackup(JobId(7), ShardId(0), 3, actions);
  });
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(node.Receive().header.op, Op::kInitOk);
  EXPECT_TRUE(copies_[0]->BackupStates().empty());
  Push(record_, &node, 0);  // in the previous generation: the node does not know of the new one
  ExpectAnswer(&node, 0);
}

INSTANTIATE_TEST_SUITE_P(Frames, ReplicaThreadTest, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Sealed") : std::string("Plain");
});

}  // namespace

}  // namespace strata::server
