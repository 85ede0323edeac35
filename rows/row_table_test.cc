#include "rows/row_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/diverged.h"
#include "common/random.h"
#include "proto/record.pb.h"
#include "rows/initial_values.h"
#include "rows/row_batch.h"
#include "rows/row_key.h"
#include "rows/row_range.h"
#include "rows/row_update.h"

namespace strata::rows {
namespace {

TEST(RowKey, IsABijectionThatSpreadsNeighboursOverBucketsAndRanges) {
  std::set<uint64_t> hashes;
  std::vector<int> in_bucket(16, 0);
  for (uint64_t id = 0; id < 16000; ++id) {
    const uint64_t hash = HashOf(7, id);
    hashes.insert(hash);
    ++in_bucket[HighBits(hash, 4)];
    EXPECT_EQ(HighBits(hash, 7) >> 3, HighBits(hash, 4));
  }
  EXPECT_EQ(hashes.size(), 16000u);
  for (const int count : in_bucket) EXPECT_NEAR(count, 1000, 150);
  EXPECT_NE(HashOf(7, 5), HashOf(8, 5));
  EXPECT_EQ(HighBits(HashOf(7, 5), 0), 0u);
}

TEST(InitialValues, AreAPureFunctionOfSeedIdAndColumn) {
  const InitialValues uniform{InitialValues::Kind::kUniform, 0.5f};
  std::vector<float> row(8), again(4);
  FillInitial(uniform, 3, 17, absl::MakeSpan(row));
  FillInitial(uniform, 3, 17, absl::MakeSpan(again));
  EXPECT_EQ(std::memcmp(row.data(), again.data(), 4 * sizeof(float)), 0);
  FillInitial(uniform, 4, 17, absl::MakeSpan(again));
  EXPECT_NE(row[0], again[0]);
}

TEST(InitialValues, HaveTheMomentsOfTheirDistributions) {
  std::vector<float> row(4096);
  for (const auto kind : {InitialValues::Kind::kUniform, InitialValues::Kind::kNormal}) {
    double sum = 0, squares = 0;
    float least = 0, most = 0;
    constexpr int kRows = 64;
    for (int id = 0; id < kRows; ++id) {
      FillInitial({kind, 2.0f}, 9, static_cast<uint64_t>(id), absl::MakeSpan(row));
      for (const float value : row) {
        sum += value;
        squares += double{value} * value;
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
    const double n = kRows * static_cast<double>(row.size());
    const bool is_uniform = kind == InitialValues::Kind::kUniform;
    EXPECT_NEAR(sum / n, 0, 0.02);
    EXPECT_NEAR(squares / n, is_uniform ? 4.0 / 3 : 4.0, 0.05);
    EXPECT_GE(least, is_uniform ? -2.0f : -12.0f);
    EXPECT_LT(most, is_uniform ? 2.0f : 12.0f);
    EXPECT_GT(most, is_uniform ? 1.99f : 7.0f);
  }
}

TableSpec SomeTable(RowOptimizerKind kind = RowOptimizerKind::kSgd, uint64_t capacity = 5000) {
  TableSpec spec{.name = "items", .columns = 4, .capacity = capacity, .seed = 11};
  spec.optimizer.kind = kind;
  return spec;
}

std::unique_ptr<RowTable> Make(const TableSpec& spec, uint32_t bucket_bits = 0) {
  auto table = RowTable::Create(spec, bucket_bits);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

// Returns the error of a table that cannot be.
std::string Wrong(const TableSpec& spec) {
  return std::string(RowTable::Create(spec, 0).status().message());
}

TEST(RowTable, RefusesWhatIsNoTable) {
  TableSpec spec = SomeTable();
  spec.columns = 0;
  EXPECT_EQ(Wrong(spec), "table \"items\": dim: 0 is not in 1 to 4096");
  spec = SomeTable();
  spec.capacity = 0;
  EXPECT_EQ(Wrong(spec), "table \"items\": capacity: 0 is not in 1 to 274877906944");
  spec = SomeTable();
  spec.name = "";
  EXPECT_EQ(Wrong(spec), "table: a name has 1 to 256 bytes, not 0");
  spec = SomeTable();
  spec.initial.scale = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Wrong(spec), "table \"items\": init: its scale is not finite");
}

TEST(RowTable, RowsHaveTheirInitialValuesUntilTheyArePushedAndLookupsStoreNothing) {
  const auto table = Make(SomeTable());
  std::vector<float> rows(12), first(4);
  table->Lookup({5, 6, 5}, rows.data());
  FillInitial(table->spec().initial, 11, 5, absl::MakeSpan(first));
  EXPECT_EQ(std::memcmp(rows.data(), first.data(), 16), 0);
  EXPECT_EQ(std::memcmp(rows.data(), rows.data() + 8, 16), 0);
  EXPECT_EQ(table->size(), 0u);
  const std::vector<float> gradient = {1, 2, 3, 4};
  const RowTable::Counts counts = table->Update({5}, gradient.data(), {.lr = 0.5f}, 1);
  EXPECT_EQ(counts.updated, 1u);
  EXPECT_EQ(counts.stored, 1u);
  table->Lookup({5}, rows.data());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rows[i], first[i] - 0.5f * gradient[i]);
}

TEST(RowTable, RefusesConstantsThatNoOptimizerHas) {
  TableSpec spec = SomeTable(RowOptimizerKind::kAdam);
  spec.optimizer.beta2 = 1.0f;
  EXPECT_EQ(Wrong(spec), "table \"items\": optimizer: beta2: 1 is not at least 0 and below 1");
  spec = SomeTable(RowOptimizerKind::kAdagrad);
  spec.optimizer.epsilon = 0.0f;
  EXPECT_EQ(Wrong(spec), "table \"items\": optimizer: epsilon: 0 is not above 0 and finite");
  spec = SomeTable();
  spec.optimizer.weight_decay = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Wrong(spec),
            "table \"items\": optimizer: weight_decay: nan is not at least 0 and finite");
}

TEST(RowTable, GivesBackTheRowsAndTheStateThatItWasGiven) {
  const auto table = Make(SomeTable(RowOptimizerKind::kAdam));
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> state(16);
  for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<float>(i) / 2;
  EXPECT_EQ(table->Store({7, 9}, weights.data(), state.data(), 3).stored, 2u);
  EXPECT_EQ(table->StoredIds(), (std::vector<uint64_t>{7, 9}));
  std::vector<float> found(8), found_state(16);
  table->Lookup({7, 9}, found.data());
  EXPECT_EQ(found, weights);
  EXPECT_EQ(table->ReadState({7, 9}, found_state.data()), absl::OkStatus());
  EXPECT_EQ(found_state, state);
  EXPECT_EQ(table->ReadState({7, 8}, found_state.data()).message(), "id 8 is not stored");
  // Without state it is that of a row before its first push.
  EXPECT_EQ(table->Store({9}, weights.data(), nullptr, 4).stored, 0u);
  EXPECT_EQ(table->ReadState({9}, found_state.data()), absl::OkStatus());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(found_state[i], 0.0f);
}

TEST(RowBatch, DistinctIdsAscendAndEachIdHasItsPlaceAmongThem) {
  for (const size_t count : {0, 1, 7, 255, 256, 5000}) {
    std::vector<uint64_t> ids(count), unique(count);
    std::vector<int64_t> places(count);
    for (size_t i = 0; i < count; ++i) {
      // Ids of all lengths, some repeated.
      ids[i] = RandomBits(5, RandomBelow(6, i, 3000)) >> (1 + RandomBelow(7, i % 3000, 60));
    }
    unique.resize(UniqueIds(ids, unique.data(), places.data()));
    EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), unique.size());
    EXPECT_TRUE(std::is_sorted(unique.begin(), unique.end()));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(unique[places[i]], ids[i]) << i;
  }
}

TEST(RowBatch, GradientsOfARowAreAddedInTheOrderOfTheCalls) {
  RowGradients gradients(2);
  const std::vector<float> first = {1e8f, 1, 2, 3}, second = {5, 6, -1e8f, 1}, third = {1, 1};
  EXPECT_EQ(gradients.Add({4, 8}, first.data()), absl::OkStatus());
  EXPECT_EQ(gradients.Add({2, 4}, second.data()), absl::OkStatus());
  EXPECT_EQ(gradients.Add({4}, third.data()), absl::OkStatus());
  EXPECT_EQ(gradients.ids(), (std::vector<uint64_t>{2, 4, 8}));
  const float expected[] = {5, 6, (1e8f - 1e8f) + 1, 3, 2, 3};
  EXPECT_EQ(std::memcmp(gradients.sums(), expected, sizeof expected), 0);
  gradients.Clear();
  EXPECT_TRUE(gradients.ids().empty());
}

TEST(RowBatch, AGradientThatIsNotFiniteNamesItsRowAndAddsNothing) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0u, 9u, 32u, 35u}) {
      RowGradients gradients(9);
      std::vector<float> values(36, 1e38f);
      values[at] = bad;
      const absl::Status status = gradients.Add({1, 2, 3, 4}, values.data());
      EXPECT_TRUE(HasDiverged(status));
      EXPECT_EQ(status.message(),
                absl::StrFormat("id %d: the gradient of column %d is %g", 1 + at / 9, at % 9, bad));
      EXPECT_TRUE(gradients.ids().empty());
    }
  }
}

TEST(RowBatch, ABagIsAddedToEachOfItsRowsInTheOrderOfTheBags) {
  const std::vector<float> bags = {1, 2, 3, 10, 20, 30, 100, 200, 300};
  const std::vector<int64_t> ends = {2, 2, 5}, places = {0, 1, 1, 1, 0};
  std::vector<float> rows(6);
  SpreadBags(bags.data(), ends, 3, places.data(), rows.data());
  EXPECT_EQ(rows, (std::vector<float>{101, 202, 303, 201, 402, 603}));
}

// Held against a std::map that is told the same.
TEST(RowTable, HasTheRowsOfAMapWhateverIsPushed) {
  for (const auto kind :
       {RowOptimizerKind::kSgd, RowOptimizerKind::kAdagrad, RowOptimizerKind::kRowwiseAdagrad,
        RowOptimizerKind::kAdam, RowOptimizerKind::kFtrl}) {
    TableSpec spec = SomeTable(kind);
    spec.optimizer.weight_decay = 0.01f;
    const auto table = Make(spec);
    std::map<uint64_t, std::pair<std::vector<float>, std::vector<float>>> model;
    uint64_t draws = 0;
    for (uint32_t step = 1; step <= 50; ++step) {
      std::set<uint64_t> touched;
      for (int i = 0; i < 200; ++i) touched.insert(RandomBelow(1, ++draws, 3000));
      const std::vector<uint64_t> ids(touched.begin(), touched.end());
      std::vector<float> sums(ids.size() * 4);
      for (float& sum : sums) sum = RandomUniform(2, ++draws) - 0.5f;
      const RowStep how{.lr = 0.1f, .gradient_scale = 0.25f, .number = step};
      ASSERT_EQ(table->Update(ids, sums.data(), how, step).updated, ids.size());
      const RowUpdate update(spec.optimizer, how, 4);
      for (size_t i = 0; i < ids.size(); ++i) {
        auto [row, is_new] = model.try_emplace(ids[i]);
        auto& [weights, state] = row->second;
        if (is_new) {
          weights.resize(4);
          state.resize(StateColumns(kind, 4));
          FillInitial(spec.initial, spec.seed, ids[i], absl::MakeSpan(weights));
          update.Begin(state.data());
        }
        update(&sums[i * 4], weights.data(), state.data());
      }
    }
    ASSERT_EQ(table->size(), model.size());
    EXPECT_LE(table->memory_bytes(), MemoryBytesMax(table->spec(), 0, 1));
    for (const auto& [id, row] : model) {
      float found[4];
      table->Lookup({id}, found);
      ASSERT_EQ(std::memcmp(found, row.first.data(), sizeof found), 0) << id;
    }
  }
}

TEST(RowTable, AFullRangeRefusesNewRowsAndUpdatesThoseThatItHas) {
  const auto table = Make(SomeTable(RowOptimizerKind::kSgd, 100));
  std::vector<uint64_t> ids(150);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const std::vector<float> sums(ids.size() * 4, 1.0f);
  RowTable::Counts counts = table->Update(ids, sums.data(), {.lr = 1}, 1);
  EXPECT_EQ(counts.stored, 100u);
  EXPECT_EQ(counts.refused, 50u);
  counts = table->Update(ids, sums.data(), {.lr = 1}, 2);
  EXPECT_EQ(counts.stored, 0u);
  EXPECT_EQ(counts.updated, 100u);
  EXPECT_EQ(table->size(), 100u);
  // The 150th id has its initial values still.
  float found[4], first[4];
  table->Lookup({149}, found);
  FillInitial(table->spec().initial, 11, 149, absl::MakeSpan(first));
  EXPECT_EQ(std::memcmp(found, first, sizeof found), 0);
}

TEST(RowTable, HoldsItsCapacityThoughHashesSpreadUnevenly) {
  const auto table = Make(SomeTable(RowOptimizerKind::kRowwiseAdagrad, 50000));
  std::vector<uint64_t> ids(50000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i * 977;
  const std::vector<float> sums(ids.size() * 4, 1.0f);
  EXPECT_EQ(table->Update(ids, sums.data(), {.lr = 1}, 1).refused, 0u);
  EXPECT_LE(table->memory_bytes(), MemoryBytesMax(table->spec(), 0, 1));
}

// Two processes that have half of the buckets each, and one that has all.
TEST(RowTable, WhatBecomesOfARowDoesNotDependOnWhichBucketsAreHere) {
  for (const uint64_t capacity : {100, 20000}) {
    const TableSpec spec = SomeTable(RowOptimizerKind::kRowwiseAdagrad, capacity);
    constexpr uint32_t kBucketBits = 4;
    const auto whole = Make(spec, kBucketBits);
    const std::unique_ptr<RowTable> halves[] = {Make(spec, kBucketBits), Make(spec, kBucketBits)};
    std::vector<uint64_t> ids(capacity * 8), of_half[2];
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = i * 31;
      of_half[HighBits(HashOf(spec.seed, ids[i]), kBucketBits) % 2].push_back(ids[i]);
    }
    const std::vector<float> sums(ids.size() * 4, 1.0f);
    const RowTable::Counts all = whole->Update(ids, sums.data(), {.lr = 1}, 1);
    uint64_t refused = 0;
    for (int half = 0; half < 2; ++half) {
      refused += halves[half]->Update(of_half[half], sums.data(), {.lr = 1}, 1).refused;
      EXPECT_LE(halves[half]->memory_bytes(), MemoryBytesMax(spec, kBucketBits, 8));
      std::vector<float> here(of_half[half].size() * 4), there(here.size());
      halves[half]->Lookup(of_half[half], here.data());
      whole->Lookup(of_half[half], there.data());
      EXPECT_EQ(here, there);
    }
    EXPECT_EQ(refused, all.refused);
    EXPECT_GT(refused, 0u);
    EXPECT_GE(all.stored, capacity);
  }
}

// A copy of a bucket has each row once, as it was, whatever changes while it is taken.
TEST(RowTable, ACopyOfABucketIsThatOfItsClockWhileRowsChange) {
  constexpr uint32_t kBucketBits = 1, kClock = 10;
  const TableSpec spec = {.name = "items",
                          .columns = 3,
                          .capacity = 20000,
                          .seed = 5,
                          .optimizer = {.kind = RowOptimizerKind::kAdagrad}};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto table = *RowTable::Create(spec, kBucketBits);
    uint64_t draws = 0;
    const auto draw = [&](uint64_t below) { return RandomBits(seed, draws++) % below; };
    const auto change = [&](uint32_t clock, uint64_t rows) {
      std::set<uint64_t> ids;
      while (ids.size() < rows) ids.insert(draw(4000));
      const std::vector<uint64_t> ascending(ids.begin(), ids.end());
      const std::vector<float> gradients(3 * rows, 0.5f + static_cast<float>(draw(5)));
      table->Update(ascending, gradients.data(), {.lr = 0.5f}, clock);
    };
    for (uint32_t clock = 0; clock < kClock; ++clock) change(clock, 300);
    std::vector<uint64_t> stored = table->StoredIds();
    std::erase_if(stored, [](uint64_t id) { return BucketOf(5, id, kBucketBits) != 1; });
    std::vector<float> weights(3 * stored.size()), state(3 * stored.size());
    table->Lookup(stored, weights.data());
    ASSERT_TRUE(table->ReadState(stored, state.data()).ok());
    std::map<uint64_t, uint64_t> place_of;
    for (size_t place = 0; place < stored.size(); ++place) place_of[stored[place]] = place;

    table->BeginCut(1, kClock);
    std::map<uint64_t, int> times;
    bool is_whole = false;
    for (uint32_t clock = kClock; !is_whole; ++clock) {
      for (uint64_t changes = draw(3); changes > 0; --changes) change(clock, 1 + draw(40));
      std::vector<std::byte> packed;
      is_whole = table->TakeCut(1, 1, &packed);  // a range
      const TableRows rows = Unpack(spec, 0, packed);
      ASSERT_EQ(rows.weights.size(), 3 * rows.ids.size());
      for (size_t row = 0; row < rows.ids.size(); ++row) {
        ++times[rows.ids[row]];
        ASSERT_LT(rows.clocks[row], kClock);
        ASSERT_TRUE(place_of.contains(rows.ids[row])) << "seed " << seed;
        const size_t place = place_of[rows.ids[row]];
        for (size_t column = 0; column < 3; ++column) {
          ASSERT_EQ(rows.weights[3 * row + column], weights[3 * place + column]);
          ASSERT_EQ(rows.state[3 * row + column], state[3 * place + column]);
        }
      }
    }
    EXPECT_EQ(times.size(), stored.size());
    for (const auto& [id, count] : times) ASSERT_EQ(count, 1) << id;
    EXPECT_EQ(table->cut_bytes(), 0u);
    change(100, 50);
    EXPECT_EQ(table->cut_bytes(), 0u);
  }
}

TEST(RowTable, RowsOfACopyAreStoredAgainAsTheyWere) {
  const TableSpec spec = {.name = "items",
                          .columns = 2,
                          .capacity = 1000,
                          .optimizer = {.kind = RowOptimizerKind::kAdagrad}};
  auto table = *RowTable::Create(spec, 2), other = *RowTable::Create(spec, 2);
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 200; ++id) ids.push_back(7 * id);
  const std::vector<float> gradients(400, 0.25f);
  table->Update(ids, gradients.data(), {.lr = 1}, 3);
  std::vector<std::byte> packed;
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    table->BeginCut(bucket, 4);
    ASSERT_TRUE(table->TakeCut(bucket, 1 << 20, &packed));
  }
  EXPECT_EQ(other->Restore(Unpack(spec, 0, packed)).stored, 200u);
  for (RowTable* one : {table.get(), other.get()}) one->Update(ids, gradients.data(), {.lr = 1}, 5);
  std::vector<float> expected(400), found(400);
  table->Lookup(ids, expected.data());
  other->Lookup(ids, found.data());
  EXPECT_EQ(expected, found);
  // As many pushes, and of the same clocks.
  std::vector<std::byte> a, b;
  for (const auto& [one, to] : {std::pair(table.get(), &a), std::pair(other.get(), &b)}) {
    one->BeginCut(2, 6);
    ASSERT_TRUE(one->TakeCut(2, 1 << 20, to));
  }
  const TableRows left = Unpack(spec, 0, a), right = Unpack(spec, 0, b);
  EXPECT_EQ(std::set(left.pushes.begin(), left.pushes.end()), std::set<uint32_t>{2});
  EXPECT_EQ(std::multiset(right.pushes.begin(), right.pushes.end()),
            std::multiset(left.pushes.begin(), left.pushes.end()));
  EXPECT_EQ(std::set(right.clocks.begin(), right.clocks.end()), std::set<uint32_t>{5});
}

TEST(TableSpec, ComesOutOfTheRecordAsItWentIn) {
  proto::Layout layout;
  for (int i = 0; i < 5; ++i) {
    TableSpec spec = SomeTable(static_cast<RowOptimizerKind>(i));
    spec.name = "t" + std::to_string(i);
    spec.initial.kind = static_cast<InitialValues::Kind>(i % 3);
    spec.optimizer.l1 = 0.25f;
    *layout.add_tables() = ToProto(spec);
  }
  const auto tables = TablesOf(layout);
  ASSERT_TRUE(tables.ok()) << tables.status();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ((*tables)[i].initial.kind, static_cast<InitialValues::Kind>(i % 3));
    EXPECT_EQ(ToProto((*tables)[i]).SerializeAsString(), layout.tables(i).SerializeAsString());
  }
  layout.mutable_tables(1)->set_name("t0");
  EXPECT_EQ(TablesOf(layout).status().message(), "table \"t0\": two have this name");
  layout.mutable_tables(1)->set_name("t1");
  layout.mutable_tables(1)->set_columns(0);
  EXPECT_EQ(TablesOf(layout).status().message(), "table \"t1\": dim: 0 is not in 1 to 4096");
  layout.mutable_tables(1)->set_columns(4);
  layout.mutable_tables(1)->set_optimizer(static_cast<proto::Table::Optimizer>(9));
  EXPECT_EQ(TablesOf(layout).status().message(),
            "table \"t1\": its init or optimizer is of a newer version");
}

TEST(RowRange, FindsWhatIsLeftAfterRemovalsInAnyOrder) {
  const RowLayout layout{.seed = 5, .columns = 2, .state = 1};
  RowMemory memory = RowMemory::Create(layout, 1, RowRange::kRowsMax).value();
  RowRange range;
  std::map<uint64_t, float> model;
  for (uint64_t draw = 0; draw < 20000; ++draw) {
    const uint64_t id = RandomBelow(3, draw, 700);
    const uint64_t hash = HashOf(layout.seed, id);
    const auto known = model.find(id);
    ASSERT_EQ(range.Find(memory, hash, id).exists(), known != model.end());
    if (known == model.end()) {
      range.Add(memory, hash, id).weights()[1] = static_cast<float>(draw);
      model[id] = static_cast<float>(draw);
    } else {
      ASSERT_EQ(range.Find(memory, hash, id).weights()[1], known->second);
      if (RandomBelow(4, draw, 2) == 0) continue;
      range.Remove(memory, hash, id);
      model.erase(known);
    }
    ASSERT_EQ(range.size(), model.size());
  }
}

}  // namespace
}  // namespace strata::rows
