#include "tests/exchange/moving_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

namespace strata::tests {

using server::BackupState;
using server::ShardCopy;
using server::SimCopy;
using worker::TrainingNode;

namespace {

constexpr uint64_t kMovingEventsMax = 1'000'000;

std::string AddressOf(uint32_t server, uint32_t shard) {
  return absl::StrCat("server", server, ".", shard);
}

}  // namespace

MovingCluster::MovingCluster(const Options& options, Course course, uint32_t seed)
    : options_(options), course_(course), network_(seed), homes_(kShards) {
  MakeRecord();
  for (uint32_t server = 0; server < kServers; ++server) {
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      copies_.push_back(
          std::make_unique<SimCopy>(&network_, AddressOf(server, shard), 32 + server));
      copies_.back()->LetShardsLeave();
    }
  }
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    EXPECT_TRUE(CopyOf(0, shard).core().Install(record_, ShardId(shard)).ok());
    if (!options.has_backups) continue;
    homes_[shard].backup = 1;
    EXPECT_TRUE(
        CopyOf(1, shard).core().Install(record_, ShardId(shard), {}, ShardCopy::kBackup).ok());
  }
  network_.set_faults({.drop = seed % 4 == 1 ? 0.02 : 0,
                       .duplicate = 0.1,
                       .break_both = seed % 2 == 1 ? 0.005 : 0});
  for (uint32_t node = 0; node < kNodes; ++node) Begin(node);
  Tick();
}

void MovingCluster::Run() {
  if (course_ != Course::kStays) Later([this] { MoveNext(); });
  if (course_ == Course::kMovesAndDies) {
    network_.After(network_.random().Between(absl::Milliseconds(10), absl::Milliseconds(600)),
                   [this] { Die(network_.random().Below(kShards)); });
  }
  for (uint64_t events = 0; !Done(); ++events) {
    ASSERT_LT(events, kMovingEventsMax) << "no progress: " << Describe();
    ASSERT_TRUE(network_.RunOne());
    for (const auto& node : nodes_) ASSERT_TRUE(node->status().ok()) << node->status();
    ASSERT_FALSE(testing::Test::HasFailure()) << Describe();
  }
}

std::vector<float> MovingCluster::Final() const {
  for (const auto& node : nodes_) EXPECT_EQ(node->weights(), nodes_[0]->weights());
  return nodes_[0]->weights();
}

void MovingCluster::MakeRecord() {
  server::JobOptions job;
  job.ranks.assign(kNodes, 1);
  job.elements = kAllElements;
  job.chunk_elements = kElements;
  job.shards = kShards;
  job.batch_per_rank = 1;
  job.job_text = absl::StrCat(options_.job, " schedule { base_lr: ", options_.counts ? 1 : 0.1,
                              " }", options_.has_backups ? " replicas: 1" : "");
  record_ = server::MakeRecord(job);
  proto::Placement* const placement = record_.mutable_placement();
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    placement->set_shard_endpoints(static_cast<int>(shard), AddressOf(0, shard));
    placement->add_shard_generations(2);
    placement->add_backup_endpoints(options_.has_backups ? AddressOf(1, shard) : "");
  }
}

void MovingCluster::Begin(uint32_t node) {
  TrainingNode::Options options;
  options.core.record = record_;
  options.core.node = NodeId(node);
  options.core.incarnation = 1;
  options.core.timing.give_up_after = absl::Hours(1);  // HELLO may be lost repeatedly
  options.name = absl::StrCat("node", node);
  options.addresses_are_names = true;
  options.clocks = options_.clocks;
  options.in_step = true;
  options.samples = 1;
  options.first_weight = [this](uint64_t i) {
    return options_.counts ? 0.0f : 0.25f + 0.01f * static_cast<float>(i % 13);
  };
  options.gradient = [this, node](uint64_t clock, uint64_t i) {
    return options_.counts ? Count(node, clock, i) : Gradient(node, clock, i);
  };
  nodes_.push_back(std::make_unique<TrainingNode>(&network_, std::move(options)));
  nodes_.back()->Start();
}

float MovingCluster::Count(uint32_t node, uint64_t clock, uint64_t i) const {
  if (i % kElements != node * kClocks + clock) return 0;
  const bool on_arrival = options_.job.find("async") != std::string::npos;
  return on_arrival ? -1.0f : -1.0f * kNodes;
}

float MovingCluster::Gradient(uint32_t node, uint64_t clock, uint64_t i) const {
  const std::vector<float>& weights = nodes_[node]->step_weights();
  return 0.5f * weights[i] - 0.3f * weights[(i + 17) % kAllElements] +
         0.01f * static_cast<float>((i * 31 + node * 17 + clock * 7) % 97);
}

void MovingCluster::Later(std::function<void()> what) {
  network_.After(network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(20)),
                 std::move(what));
}

void MovingCluster::Later(uint32_t shard, std::function<void()> what) {
  Later([this, shard, era = homes_[shard].era, what = std::move(what)] {
    if (homes_[shard].era == era) what();
  });
}

void MovingCluster::MoveNext() {
  const uint32_t shard = turn_++ % kShards;
  if (!homes_[shard].goes_on) return Later([this] { MoveNext(); });
  moves_now_ = shard;
  const uint32_t target = FreeServer(shard);
  const uint32_t generation = ++homes_[shard].generation;
  InstallEmpty(target, shard, generation);
  const bool only_backup = options_.has_backups && network_.random().Chance(0.4);
  Later(shard, [=, this] {
    if (!options_.has_backups) return MoveAlone(shard, target, generation);
    const uint32_t filler = only_backup ? homes_[shard].primary : homes_[shard].backup;
    Do(filler, shard, [&](server::ShardCore& core, Actions actions) {
      return core.FillNext(job(), ShardId(shard), generation, AddressOf(target, shard), actions);
    });
    WhenWhole(filler, shard, generation, [=, this] { Switch(shard, target, only_backup); });
  });
}

uint32_t MovingCluster::FreeServer(uint32_t shard) {
  uint32_t server = 0;
  do {
    server = static_cast<uint32_t>(network_.random().Below(kServers));
  } while (server == homes_[shard].primary || static_cast<int>(server) == homes_[shard].backup);
  return server;
}

void MovingCluster::InstallEmpty(uint32_t server, uint32_t shard, uint32_t generation) {
  proto::JobRecord record = record_;
  proto::Placement* const placement = record.mutable_placement();
  placement->set_backup_endpoints(static_cast<int>(shard), AddressOf(server, shard));
  placement->set_shard_generations(static_cast<int>(shard), generation);
  Remove(server, shard, generation);
  EXPECT_TRUE(CopyOf(server, shard)
                  .core()
                  .Install(record, ShardId(shard), {}, ShardCopy::kEmptyBackup)
                  .ok());
}

void MovingCluster::Remove(uint32_t server, uint32_t shard, uint32_t generation) {
  CopyOf(server, shard).Do([&](Actions actions) {
    EXPECT_FALSE(
        CopyOf(server, shard).core().RemoveShard(job(), ShardId(shard), generation, actions));
  });
}

void MovingCluster::Do(uint32_t server, uint32_t shard,
                       const std::function<absl::Status(server::ShardCore&, Actions)>& what) {
  SimCopy& copy = CopyOf(server, shard);
  copy.Do([&](Actions actions) { EXPECT_EQ(what(copy.core(), actions), absl::OkStatus()); });
}

void MovingCluster::WhenWhole(uint32_t filler, uint32_t shard, uint32_t generation,
                              std::function<void()> then) {
  bool is_whole = false;
  for (const BackupState& state : CopyOf(filler, shard).core().BackupStates()) {
    ASSERT_EQ(state.refusal, absl::OkStatus());
    if (state.generation != generation) continue;
    EXPECT_EQ(state.is_next, options_.has_backups);
    is_whole = state.chunks_missing == 0;
  }
  if (is_whole) return Later(shard, std::move(then));
  Later(shard, [=, this] { WhenWhole(filler, shard, generation, then); });
}

void MovingCluster::MoveAlone(uint32_t shard, uint32_t target, uint32_t generation) {
  const uint32_t from = homes_[shard].primary;
  Do(from, shard, [&](server::ShardCore& core, Actions actions) {
    return core.FillBackup(job(), ShardId(shard), generation, AddressOf(target, shard),
                           /*is_whole=*/false, actions);
  });
  WhenWhole(from, shard, generation, [=, this] {
    const uint32_t next = ++homes_[shard].generation;
    homes_[shard].primary = target;
    Do(target, shard, [&](server::ShardCore& core, Actions actions) {
      return core.Promote(job(), ShardId(shard), next, actions);
    });
    HasMoved(shard, from);
  });
}

void MovingCluster::Switch(uint32_t shard, uint32_t target, bool only_backup) {
  Home& home = homes_[shard];
  const auto backup = static_cast<uint32_t>(home.backup);
  const uint32_t from = only_backup ? backup : home.primary;
  if (!only_backup) home.primary = backup;
  home.backup = static_cast<int>(target);
  Do(home.primary, shard, [&](server::ShardCore& core, Actions actions) {
    return core.FillBackup(job(), ShardId(shard), home.generation, AddressOf(target, shard),
                           /*is_whole=*/true, actions);
  });
  HasMoved(shard, from);
}

void MovingCluster::HasMoved(uint32_t shard, uint32_t from) {
  const uint32_t generation = homes_[shard].generation;
  TellNodes(shard);
  Later(shard, [=, this] {
    Remove(from, shard, generation);
    if (!Done()) ++moves_;
    moves_now_.reset();
    Later([this] { MoveNext(); });
  });
}

void MovingCluster::TellNodes(uint32_t shard) {
  const worker::ShardMove move{ShardId(shard), AddressOf(homes_[shard].primary, shard),
                               homes_[shard].generation};
  for (const auto& node : nodes_) {
    Later([&node = *node, move] { node.OnShardMoved(move); });
  }
}

void MovingCluster::Die(uint32_t shard) {
  Home& home = homes_[shard];
  if (Done()) return;
  ++deaths_;
  ++home.era;
  home.goes_on = false;
  const auto backup = static_cast<uint32_t>(home.backup);
  const bool primary_dies = network_.random().Chance(0.6);
  CopyOf(primary_dies ? home.primary : backup, shard).Die();
  if (primary_dies) home.primary = backup;
  home.backup = -1;
  Later([this, shard] {
    Home& left = homes_[shard];
    ++left.generation;
    Do(left.primary, shard, [&](server::ShardCore& core, Actions actions) {
      return core.Promote(job(), ShardId(shard), left.generation, actions);
    });
    TellNodes(shard);
    if (moves_now_ == shard) Later([this] { MoveNext(); });
  });
}

void MovingCluster::Tick() {
  for (const auto& copy : copies_) copy->OnTime();
  network_.After(absl::Milliseconds(1), [this] { Tick(); });
}

bool MovingCluster::Done() const {
  return std::ranges::all_of(nodes_, [](const auto& node) { return node->is_over(); });
}

std::string MovingCluster::Describe() const {
  std::string text = absl::StrCat(moves_, " moves, ", deaths_, " deaths;");
  for (const Home& home : homes_) {
    absl::StrAppend(&text, " ", home.primary, "+", home.backup, " in ", home.generation);
  }
  return text;
}

}  // namespace strata::tests
