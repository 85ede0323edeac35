#include "tests/exchange/elastic_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::tests {

using server::ShardAction;
using server::ShardCopy;
using server::SimCopy;
using worker::TrainingNode;
using worker::ViewGate;

namespace {

constexpr uint64_t kEventsMax = 1'000'000;

}  // namespace

ElasticCluster::ElasticCluster(const Options& options, uint32_t seed)
    : options_(options), network_(seed), promised_(kNodes) {
  server::JobOptions job;
  job.ranks.assign(kNodes, 1);
  job.elements = kAllElements;
  job.chunk_elements = kElements;
  job.shards = kShards;
  job.batch_per_rank = 1;
  job.job_text = absl::StrCat(options.job, " schedule { base_lr: ", options.counts ? 1 : 0.1,
                              " } ranks: 2 ranks_min: 1 ranks_max: 4 ",
                              options.nodes_die ? "replace { per_hour: 99 } " : "",
                              options.has_backups ? "replicas: 1" : "");
  record_ = server::MakeRecord(job);
  record_.set_takes_first_weights(options.takes_first_weights);
  numbers_ = record_.view().number();
  const uint32_t present = 1 + seed % 3;
  for (uint32_t node = present; node < kNodes; ++node) {
    record_.mutable_view()->mutable_nodes(static_cast<int>(node))->set_absent(true);
  }
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    proto::Placement* const placement = record_.mutable_placement();
    placement->set_shard_endpoints(static_cast<int>(shard), absl::StrCat("0.", shard));
    placement->add_shard_generations(2);
    placement->add_backup_endpoints(options.has_backups ? absl::StrCat("1.", shard) : "");
  }
  shards_.resize(kShards);
  for (uint32_t shard = 0; shard < kShards; ++shard) InstallFirst(shard);
  network_.set_faults({.drop = seed % 4 == 1 ? 0.02 : 0,
                       .duplicate = 0.1,
                       .break_both = seed % 2 == 1 ? 0.005 : 0});
  processes_.assign(kNodes, nullptr);
  incarnations_.assign(kNodes, 0);
  for (uint32_t node = 0; node < present; ++node) Begin(node);
  Tick();
  Drive();
  if (options.nodes_die) {
    for (int i = 0; i < 3; ++i) Later([this] { KillNode(); }, absl::Milliseconds(150));
  }
  if (options.shards_move) Later([this] { MoveNext(); });
  if (!options.has_backups) return;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    Later([this, shard] { KillCopy(shard); }, absl::Milliseconds(150));
  }
}

void ElasticCluster::InstallFirst(uint32_t shard) {
  Shard& of = shards_[shard];
  for (const uint32_t copy : {0, 1}) {
    if (copy == 1 && !options_.has_backups) break;
    of.copies.push_back(std::make_unique<SimCopy>(&network_, absl::StrCat(copy, ".", shard),
                                                  32 + 8 * copy + shard));
    if (options_.shards_move) of.copies.back()->LetShardsLeave();
    const ShardCopy kind = copy == 0 ? ShardCopy::kPrimary : ShardCopy::kBackup;
    EXPECT_TRUE(of.copies.back()->core().Install(record_, ShardId(shard), {}, kind).ok());
  }
  of.primary = of.copies[0].get();
  if (options_.has_backups) of.backup = of.copies[1].get();
}

void ElasticCluster::Begin(uint32_t node) {
  // Whoever comes back to the job has left it before.
  const Process* const before = processes_[node];
  if (before != nullptr && before->training->alive()) before->training->Kill();
  all_.push_back(std::make_unique<Process>());
  Process* const process = processes_[node] = all_.back().get();
  process->node = node;
  process->incarnation = ++incarnations_[node];
  process->gate = std::make_unique<ViewGate>(views());
  promised_[node].reset();
  TrainingNode::Options options;
  options.core.record = record_;
  options.core.node = NodeId(node);
  options.core.incarnation = process->incarnation;
  options.core.timing.give_up_after = absl::Hours(1);  // HELLO may be lost again and again
  options.name = absl::StrCat("node", node, ".", process->incarnation);
  options.addresses_are_names = true;
  options.clocks = std::min(kClocks, views().LeavesAt(NodeId(node)).value_or(kClocks));
  options.in_step = true;
  options.samples = 1;
  options.first_weight = [this, node](uint64_t i) {
    const float other = options_.takes_first_weights && node > 0 ? 9.0f : 0.0f;
    return options_.counts ? 0.0f : FirstWeight(i) + other;
  };
  options.gradient = [this, process](uint64_t clock, uint64_t i) {
    return options_.counts ? CountOf(*process, clock, i)
                           : Gradient(process->training->step_weights(), process->node, clock, i);
  };
  options.may_begin = [this, process](uint64_t clock) { return MayBegin(process, clock); };
  options.on_step = [this, node](uint64_t clock, const std::vector<float>& weights) {
    steps_.push_back({node, clock, weights});
  };
  process->training = std::make_unique<TrainingNode>(&network_, std::move(options));
  process->training->Start();
}

bool ElasticCluster::MayBegin(Process* process, uint64_t clock) {
  process->trains = true;
  process->told = std::max(process->told, clock);
  if (clock >= process->gate->open_until()) return false;
  process->told = std::max(process->told, clock + 1);
  EXPECT_TRUE(process->gate->views().Has(NodeId(process->node), clock))
      << "node " << process->node << " makes step " << clock;
  return true;
}

float ElasticCluster::Gradient(const std::vector<float>& weights, uint32_t node, uint64_t clock,
                               uint64_t i) {
  return 0.5f * weights[i] - 0.3f * weights[(i + 17) % kAllElements] +
         0.01f * static_cast<float>((i * 31 + node * 17 + clock * 7) % 97);
}

// The clock's divisor is the samples of all nodes; where pushes are applied on arrival, its own.
float ElasticCluster::CountOf(const Process& process, uint64_t clock, uint64_t i) const {
  if (i % kElements != process.node * kClocks + clock) return 0;
  if (options_.job.find("async") != std::string::npos) return -1.0f;
  return -1.0f * static_cast<float>(process.gate->views().RanksAt(clock));
}

void ElasticCluster::Run() {
  for (uint64_t events = 0; !Done(); ++events) {
    ASSERT_LT(events, kEventsMax) << "no progress: " << Describe();
    ASSERT_TRUE(network_.RunOne());
    for (const auto& process : all_) {
      const TrainingNode& training = *process->training;
      ASSERT_TRUE(training.status().ok() || !training.alive()) << training.status() << Describe();
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << Describe();
  }
}

bool ElasticCluster::Done() const {
  if (stage_ == Stage::kInstalling) return false;
  for (const Process* process : processes_) {
    if (process == nullptr) continue;
    if (!process->training->alive() || !process->training->is_over()) return false;
  }
  return true;
}

std::vector<float> ElasticCluster::Final() const {
  const Views views = this->views();
  const std::vector<float>* final_weights = nullptr;
  for (const Process* process : processes_) {
    if (process == nullptr) continue;
    const uint64_t leaves_at = views.LeavesAt(NodeId(process->node)).value_or(kClocks + 1);
    if (leaves_at == kClocks) continue;  // it may not have heard so before its last step
    EXPECT_EQ(process->training->finals(), leaves_at < kClocks ? 0 : kChunks) << "final weights";
    if (leaves_at < kClocks) continue;
    if (final_weights == nullptr) final_weights = &process->training->weights();
    EXPECT_EQ(process->training->weights(), *final_weights);
  }
  return *final_weights;
}

uint64_t ElasticCluster::pushes() {
  uint64_t pushes = 0;
  for (const Shard& shard : shards_) pushes += shard.primary->core().Counters().at(job()).pushes;
  return pushes;
}

void ElasticCluster::Later(std::function<void()> what, absl::Duration most) {
  network_.After(network_.random().Between(absl::Milliseconds(1), most), std::move(what));
}

void ElasticCluster::Tick() {
  for (const Shard& shard : shards_) {
    for (const auto& copy : shard.copies) copy->OnTime();
  }
  network_.After(absl::Milliseconds(2), [this] { Tick(); });
}

std::string ElasticCluster::Describe() const {
  std::string text = absl::StrCat("stage ", static_cast<int>(stage_), " ",
                                  record_.view_changes_size(), " changes;");
  for (const proto::ViewChange& change : record_.view_changes()) {
    absl::StrAppend(&text, " {", change.ShortDebugString(), "}");
  }
  absl::StrAppend(&text, " ", moves_, " moves, ", deaths_, " deaths;");
  for (const Process* process : processes_) {
    if (process == nullptr) continue;
    absl::StrAppend(&text, " node ", process->node, ".", process->incarnation, " told ",
                    process->told, " until ", process->gate->open_until(), " from ",
                    process->training->first_clock(), ":");
    for (const uint64_t landed : process->training->landed()) absl::StrAppend(&text, " ", landed);
  }
  return text;
}

}  // namespace strata::tests
