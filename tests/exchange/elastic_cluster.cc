#include "tests/exchange/elastic_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

namespace strata::tests {

using server::ShardAction;
using server::ShardCopy;
using server::SimCopy;
using worker::TrainingNode;
using worker::ViewGate;

namespace {

using Actions = std::vector<ShardAction>*;
using server::BackupState;

constexpr uint64_t kEventsMax = 1'000'000;

constexpr int kChangesMax = 4;

constexpr int kFillsMax = 2;  // of a shard, after deaths

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
  // A node that returns to the job has left it before.
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
  options.core.timing.give_up_after = absl::Hours(1);  // HELLO may be lost repeatedly
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

// The divisor of the clock: samples of all nodes, or of the node itself if pushes are applied on
// arrival.
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
    if (leaves_at == kClocks) continue;  // it may not have been told before its last step
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

void ElasticCluster::Drive() {
  if (stage_ == Stage::kIdle && begun_ < kChangesMax && network_.random().Chance(0.6)) {
    BeginChange();
  } else if (stage_ == Stage::kProposing) {
    Propose();
  } else if (stage_ == Stage::kInstalling) {
    Install();
  }
  network_.After(absl::Milliseconds(4), [this] { Drive(); });
}

void ElasticCluster::BeginChange() {
  const Views views = this->views();
  change_ = proto::ViewChange();
  change_.set_job_id(record_.job_id());
  uint32_t left = 0;
  const std::vector<NodeId> present = views.NodesAt(ViewGate::kOpen - 1);
  for (uint32_t node = 0; node < kNodes; ++node) {
    if (std::count(present.begin(), present.end(), NodeId(node)) > 0) {
      if (left + 1 < present.size() && network_.random().Chance(0.4)) {
        change_.add_left(node);
        ++left;
      }
    } else {
      // A node that has left may return once its processes have ended.
      const Process* const before = processes_[node];
      const bool is_free =
          before == nullptr || (before->training->alive() && before->training->is_over());
      if (is_free && network_.random().Chance(0.5)) change_.add_joined(node);
    }
  }
  if (change_.joined().empty() && change_.left().empty()) return;
  change_.set_number(++numbers_);
  ++begun_;
  promised_.assign(kNodes, std::nullopt);
  stage_ = Stage::kProposing;
}

void ElasticCluster::Propose() {
  bool all = true, some_are_over = false;
  for (const NodeId node : views().NodesAt(ViewGate::kOpen - 1)) {
    Process* const process = processes_[node.value()];
    if (process->training->alive() && process->training->is_over()) some_are_over = true;
    if (promised_[node.value()]) continue;
    all = false;
    ToNode(process, [this, process, number = change_.number()] {
      if (!process->trains) return;  // it will answer a later question, once it trains
      const std::optional<uint64_t> from =
          process->gate->Promise(number, [process](uint64_t) { return process->told; });
      if (from) Later([this, process, number, from] { OnPromised(*process, number, *from); });
    });
  }
  if (some_are_over || network_.random().Chance(0.01)) return GiveUp();
  if (all) Decide();
}

// Promises of a dead process are void.
void ElasticCluster::OnPromised(const Process& process, uint32_t number, uint64_t from_clock) {
  const bool is_of_now = stage_ == Stage::kProposing && number == change_.number() &&
                         process.incarnation == incarnations_[process.node] &&
                         process.training->alive();
  if (is_of_now) promised_[process.node] = from_clock;
}

void ElasticCluster::GiveUp() {
  ++given_up_;
  stage_ = Stage::kIdle;
  proto::ViewChange none;
  none.set_job_id(change_.job_id());
  none.set_number(change_.number());
  for (const NodeId node : views().NodesAt(ViewGate::kOpen - 1)) {
    Process* const process = processes_[node.value()];
    ToNode(process, [this, process, none] { TakeChange(process, none); });
  }
}

void ElasticCluster::Decide() {
  uint64_t at = 0;
  for (const std::optional<uint64_t>& from : promised_) at = std::max(at, from.value_or(0));
  change_.set_at_clock(at);
  *record_.add_view_changes() = change_;
  EXPECT_TRUE(Views::Of(record_).ok()) << Views::Of(record_).status();
  installed_.clear();
  stage_ = Stage::kInstalling;
}

// Until every copy has confirmed the change, including copies made meanwhile.
void ElasticCluster::Install() {
  bool all = true;
  for (const Shard& shard : shards_) {
    all = all && !shard.is_lost;
    for (SimCopy* const copy : shard.Current()) {
      if (installed_.count(copy) > 0) continue;
      all = false;
      Later([this, &shard, copy, change = change_] { Install(shard, copy, change); });
    }
  }
  if (all) Tell();
}

void ElasticCluster::Install(const Shard& shard, SimCopy* copy, const proto::ViewChange& change) {
  if (!copy->is_alive()) return;
  const absl::Status changed = copy->core().ChangeView(change);
  const std::vector<SimCopy*> current = shard.Current();
  if (std::count(current.begin(), current.end(), copy) == 0) return;  // it has left
  EXPECT_TRUE(changed.ok()) << changed;
  Later([this, &shard, copy, number = change.number()] {
    if (number != change_.number() || !installed_.insert(copy).second) return;
    if (copy == shard.next) ++changed_while_filled_;
  });
}

void ElasticCluster::Tell() {
  stage_ = Stage::kIdle;
  for (const NodeId node : views().NodesAt(change_.at_clock() - 1)) {
    Process* const process = processes_[node.value()];
    ToNode(process, [this, process, change = change_] { TakeChange(process, change); });
  }
  for (const uint32_t node : change_.joined()) Begin(node);
}

void ElasticCluster::ToNode(Process* process, std::function<void()> what) {
  if (!process->training->alive()) return;
  const auto say = [process, what] {
    if (process->training->alive()) what();
  };
  const absl::Time at =
      network_.Now() + network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(20));
  process->heard_until = std::max(process->heard_until + absl::Nanoseconds(1), at);
  const absl::Duration wait = process->heard_until - network_.Now();
  network_.After(wait, say);
  if (network_.random().Chance(0.2)) {
    network_.After(wait + network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(80)),
                   say);
  }
}

void ElasticCluster::TakeChange(Process* process, const proto::ViewChange& change) {
  const absl::Status taken = process->gate->Take(change, process->told);
  EXPECT_TRUE(taken.ok()) << taken;
  const std::optional<uint64_t> leaves = process->gate->views().LeavesAt(NodeId(process->node));
  if (leaves) process->training->LeaveAt(*leaves);
  process->training->GoOn();
}

void ElasticCluster::KillNode() {
  std::vector<uint32_t> alive;
  for (const Process* process : processes_) {
    const bool may_die = process != nullptr && process->trains && process->training->alive() &&
                         !process->training->is_over();
    if (may_die) alive.push_back(process->node);
  }
  if (alive.empty()) return;
  const uint32_t node = alive[network_.random().Below(alive.size())];
  ++deaths_;
  processes_[node]->training->Kill();
  promised_[node].reset();
  Later([this, node] { BeginAgain(node); });
}

// Waits until each copy has the changes of its record: it has promised nothing.
void ElasticCluster::BeginAgain(uint32_t node) {
  if (stage_ == Stage::kInstalling) return Later([this, node] { BeginAgain(node); });
  Begin(node);
}

std::vector<SimCopy*> ElasticCluster::Shard::Current() const {
  std::vector<SimCopy*> current;
  for (SimCopy* const copy : {primary, backup, next}) {
    if (copy != nullptr) current.push_back(copy);
  }
  return current;
}

SimCopy* ElasticCluster::NewCopy(uint32_t shard, uint32_t generation) {
  Shard& of = shards_[shard];
  const std::string address = absl::StrCat(of.copies.size(), ".", shard);
  proto::JobRecord record = record_;
  record.mutable_placement()->set_backup_endpoints(static_cast<int>(shard), address);
  record.mutable_placement()->set_shard_generations(static_cast<int>(shard), generation);
  of.copies.push_back(std::make_unique<SimCopy>(
      &network_, address, 32 + 8 * static_cast<uint32_t>(of.copies.size()) + shard));
  SimCopy* const copy = of.copies.back().get();
  if (options_.shards_move) copy->LetShardsLeave();
  EXPECT_TRUE(copy->core().Install(record, ShardId(shard), {}, ShardCopy::kEmptyBackup).ok());
  return copy;
}

void ElasticCluster::Do(SimCopy* copy, const std::function<absl::Status(Actions)>& what) {
  copy->Do([&](Actions actions) { EXPECT_EQ(what(actions), absl::OkStatus()); });
}

void ElasticCluster::LaterOf(uint32_t shard, std::function<void()> what) {
  Later([this, shard, era = shards_[shard].era, what = std::move(what)] {
    if (shards_[shard].era == era) what();
  });
}

void ElasticCluster::WhenWhole(uint32_t shard, SimCopy* filler, uint32_t generation,
                               std::function<void()> then) {
  bool is_whole = false;
  for (const BackupState& state : filler->core().BackupStates()) {
    ASSERT_TRUE(state.refusal.ok()) << state.refusal;
    if (state.generation == generation) is_whole = state.chunks_missing == 0;
  }
  if (is_whole) return LaterOf(shard, std::move(then));
  LaterOf(shard, [=, this] { WhenWhole(shard, filler, generation, then); });
}

void ElasticCluster::TellWhereItLies(uint32_t shard) {
  const Shard& of = shards_[shard];
  const auto it = std::find_if(of.copies.begin(), of.copies.end(),
                               [&](const auto& copy) { return copy.get() == of.primary; });
  const std::string address = absl::StrCat(it - of.copies.begin(), ".", shard);
  record_.mutable_placement()->set_shard_endpoints(static_cast<int>(shard), address);
  record_.mutable_placement()->set_shard_generations(static_cast<int>(shard), of.generation);
  for (const auto& process : all_) {
    Later([process = process.get(), shard, address, generation = of.generation] {
      process->training->OnShardMoved({ShardId(shard), address, generation});
    });
  }
}

// ---- deaths ----

void ElasticCluster::KillCopy(uint32_t shard) {
  Shard& of = shards_[shard];
  if (of.backup == nullptr || !of.is_whole || of.is_lost) return;
  ++deaths_;
  ++of.era;
  of.is_lost = true;
  const bool primary_dies = !options_.shards_move || network_.random().Chance(0.6);
  SimCopy* const backup = std::exchange(of.backup, nullptr);
  (primary_dies ? of.primary : backup)->Die();
  if (primary_dies) of.primary = backup;
  if (SimCopy* const dropped = std::exchange(of.next, nullptr)) {
    Later([this, dropped, shard, generation = of.generation + 1] {
      Do(dropped, [&](Actions actions) {
        dropped->core().RemoveShard(job(), ShardId(shard), generation, actions);
        return absl::OkStatus();
      });
      MoveNext();
    });
  }
  Later([this, shard] { Promote(shard); });
}

void ElasticCluster::Promote(uint32_t shard) {
  Shard& of = shards_[shard];
  of.is_lost = false;
  ++of.generation;
  Do(of.primary, [&](Actions actions) {
    return of.primary->core().Promote(job(), ShardId(shard), of.generation, actions);
  });
  TellWhereItLies(shard);
  if (of.fills < kFillsMax) Later([this, shard] { Fill(shard); });
}

// Creates another copy of the remaining one.
void ElasticCluster::Fill(uint32_t shard) {
  Shard& of = shards_[shard];
  ++of.fills;
  const uint32_t generation = ++of.generation;
  const std::string address = absl::StrCat(of.copies.size(), ".", shard);
  // Changes decided from now on are sent to it, too.
  of.backup = NewCopy(shard, generation);
  of.is_whole = false;
  Do(of.primary, [&](Actions actions) {
    return of.primary->core().FillBackup(job(), ShardId(shard), generation, address, false,
                                         actions);
  });
  WhenWhole(shard, of.primary, generation, [this, shard] {
    ++filled_;
    shards_[shard].is_whole = true;
    Later([this, shard] { KillCopy(shard); }, absl::Milliseconds(60));
  });
}

// ---- moves ----

void ElasticCluster::MoveNext() {
  if (Done()) return;
  const uint32_t shard = turn_++ % kShards;
  Shard& of = shards_[shard];
  const bool is_busy = of.is_lost || of.next != nullptr ||
                       (options_.has_backups && (of.backup == nullptr || !of.is_whole));
  if (is_busy) return Later([this] { MoveNext(); });
  const uint32_t generation = ++of.generation;
  if (options_.has_backups) return MoveBesideBackup(shard, generation);
  MoveAlone(shard, generation);
}

// Either the primary leaves its server and the backup fills the copy that will be the backup, or
// the backup leaves.
void ElasticCluster::MoveBesideBackup(uint32_t shard, uint32_t generation) {
  Shard& of = shards_[shard];
  const bool only_backup = network_.random().Chance(0.4);
  const std::string address = absl::StrCat(of.copies.size(), ".", shard);
  SimCopy* const target = of.next = NewCopy(shard, generation);
  SimCopy* const filler = only_backup ? of.primary : of.backup;
  LaterOf(shard, [=, this] {
    Do(filler, [&](Actions actions) {
      return filler->core().FillNext(job(), ShardId(shard), generation, address, actions);
    });
    WhenWhole(shard, filler, generation, [=, this] {
      Shard& moved = shards_[shard];
      SimCopy* const from = only_backup ? moved.backup : moved.primary;
      moved.primary = filler;
      moved.backup = target;
      moved.next = nullptr;
      Do(filler, [&](Actions actions) {
        return filler->core().FillBackup(job(), ShardId(shard), generation, address,
                                         /*is_whole=*/true, actions);
      });
      HasMoved(shard, from);
    });
  });
}

// Moves a shard without a backup, which has one only during the move.
void ElasticCluster::MoveAlone(uint32_t shard, uint32_t generation) {
  Shard& of = shards_[shard];
  const std::string address = absl::StrCat(of.copies.size(), ".", shard);
  SimCopy* const from = of.primary;
  SimCopy* const target = of.next = NewCopy(shard, generation);
  LaterOf(shard, [=, this] {
    Do(from, [&](Actions actions) {
      return from->core().FillBackup(job(), ShardId(shard), generation, address,
                                     /*is_whole=*/false, actions);
    });
    WhenWhole(shard, from, generation, [=, this] {
      Shard& moved = shards_[shard];
      moved.primary = target;
      moved.next = nullptr;
      Do(target, [&](Actions actions) {
        return target->core().Promote(job(), ShardId(shard), ++moved.generation, actions);
      });
      HasMoved(shard, from);
    });
  });
}

// Nodes learn of the move before or after the server that lost the shard.
void ElasticCluster::HasMoved(uint32_t shard, SimCopy* from) {
  if (!Done()) ++moves_;
  TellWhereItLies(shard);
  Later([=, this, generation = shards_[shard].generation] {
    Do(from, [&](Actions actions) {
      from->core().RemoveShard(job(), ShardId(shard), generation, actions);
      return absl::OkStatus();
    });
  });
  Later([this] { MoveNext(); });
}

}  // namespace strata::tests
