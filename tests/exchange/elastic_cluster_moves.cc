// The part of ElasticCluster that sees to copies of shards: they die, are made anew, and move.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/exchange/elastic_cluster.h"

namespace strata::tests {

using server::BackupState;
using server::ShardAction;
using server::ShardCopy;
using server::SimCopy;
using Actions = std::vector<ShardAction>*;

namespace {

constexpr int kFillsMax = 2;  // of a shard, after deaths

}  // namespace

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

// A further copy, of the one that is left.
void ElasticCluster::Fill(uint32_t shard) {
  Shard& of = shards_[shard];
  ++of.fills;
  const uint32_t generation = ++of.generation;
  const std::string address = absl::StrCat(of.copies.size(), ".", shard);
  // Changes that are decided from now on are for it, too.
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

// The primary leaves its server, and the backup fills the copy that is to be one in its place; or
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

// A shard without a second copy gets one for a while.
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

// Nodes hear of it before or after the server that has lost it.
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
