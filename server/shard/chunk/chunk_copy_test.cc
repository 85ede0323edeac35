// A chunk that another one is copied to in the midst of a job: whatever comes afterwards, both do
// the same, bit for bit.
#include <google/protobuf/text_format.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/image/image_bytes.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {
namespace {

constexpr uint32_t kElements = 37;
constexpr size_t kNodes = 3;
constexpr uint64_t kClocks = 12;
constexpr int kSeeds = 60;

// How a job is in which a chunk lies.
struct Case {
  std::string name, consistency;
  kernels::Compression answers = kernels::Compression::kNone;
  bool whole_clocks = false;  // the copy is told of these alone
  proto::Addition::Order order = proto::Addition::TREE;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

Bytes Random(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(kElements);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return FloatBytes(std::move(values));
}

ChunkRules RulesOf(const Case& one) {
  proto::Job job;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(one.consistency, job.mutable_consistency()));
  FillDefaults(&job);
  job.set_order(one.order);
  ChunkRules rules;
  rules.nodes = kNodes;
  rules.mode =
      *CreateConsistencyMode(job, {.of_node = std::vector<uint32_t>(kNodes, 1), .total = kNodes});
  rules.update.optimizer = {.kind = OptimizerKind::kAdamW, .weight_decay = 0.01f};
  rules.update.schedule.set_base_lr(0.05f);
  rules.update.samples_per_epoch = 64;
  rules.answers = {{.compression = one.answers, .feedback = kernels::Feedback::kFollow},
                   rules.mode->answers_alike()};
  rules.cut_every = 5;
  rules.keeps_previous = true;
  rules.answers.keeps_previous = true;
  rules.takes_first_weights = true;
  return rules;
}

// What nodes see of one event: a line for each answer, and the bytes of its weights.
struct Seen {
  std::string lines;
  std::vector<std::string> weights;
  bool operator==(const Seen&) const = default;
};

std::string TextOf(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class World {
 public:
  // `may_break`: its weights may become such that they cannot be encoded.
  explicit World(const ChunkRules& rules, bool may_break = false)
      : rules_(rules),
        may_break_(may_break),
        chunk_(kernels::Cpu(), pool_, &scratch_, rules_, kElements,
               std::vector<OptimizerRun>{{0, kElements, 1.0f, 1.0f}}) {}

  ChunkState& chunk() { return chunk_; }

  Seen Push(strata::server::Push push) {
    std::vector<DueAnswer> due;
    const PushResult result = chunk_.OnPush(std::move(push), &due);
    Seen seen = See(due);
    seen.lines += "result " + std::to_string(static_cast<int>(result.error)) + result.reason;
    return seen;
  }
  Seen Retire(size_t node, absl::Time now) {
    std::vector<DueAnswer> due;
    chunk_.OnRetire(node, now, &due);
    return See(due);
  }
  Seen OnTime(absl::Time now) {
    std::vector<DueAnswer> due;
    chunk_.OnTime(now, &due);
    return See(due);
  }
  Seen Follow(const ClockSum& sum) {
    std::vector<DueAnswer> due;
    EXPECT_EQ(chunk_.Follow(sum, &due), absl::OkStatus());
    return See(due);
  }

 private:
  Seen See(const std::vector<DueAnswer>& due) {
    Seen seen;
    for (const DueAnswer& one : due) {
      const WeightVersion given = chunk_.WeightsFor(one);
      seen.lines += std::to_string(static_cast<int>(one.op)) + " to " + std::to_string(one.node) +
                    " of " + std::to_string(one.clock) + " behind " +
                    std::to_string(one.staleness) + " version " + std::to_string(given.version);
      seen.weights.push_back(TextOf(given.weights));
      if (!chunk_.copies().encodes() || one.op != wire::Op::kAnswer) continue;
      const auto encoded = chunk_.copies().Next(one.node, given.weights, given.version);
      EXPECT_TRUE(encoded.ok() || may_break_) << encoded.status();
      if (encoded.ok()) seen.weights.push_back(TextOf(encoded->payload));
    }
    for (const ChunkImage& image : chunk_.TakeImages()) {
      seen.lines += " cut at " + std::to_string(image.clock);
    }
    return seen;
  }

  BufferPool pool_;
  kernels::EncoderScratch scratch_;
  const ChunkRules rules_;
  const bool may_break_;
  ChunkState chunk_;
};

// What a line does to a copy.
ChunkCopy ThroughBytes(const ChunkCopy& copy) {
  ChunkCopy read;
  EXPECT_TRUE(read.head.ParseFromString(copy.head.SerializeAsString()));
  for (const Bytes& vector : copy.vectors) {
    const auto owner = std::make_shared<std::string>(TextOf(vector));
    read.vectors.push_back(
        Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()));
  }
  return read;
}

std::string AllOf(const ChunkCopy& copy) {
  std::string all = copy.head.SerializeAsString();
  for (const Bytes& vector : copy.vectors) all += TextOf(vector);
  return all;
}

class ChunkCopies : public testing::TestWithParam<Case> {};

// One job: pushes, repetitions by other processes, time and ends in an order from a seed.
class Course {
 public:
  Course(const Case& one, uint32_t seed)
      : case_(one), random_(seed), rules_(RulesOf(one)), first_(rules_), second_(rules_) {
    first_.chunk().Seed(Random(1), 77);
    copy_after_ = random_() % (kNodes * kClocks);
  }

  void Run() {
    for (int event = 0; event < 100000 && !Done(); ++event) {
      if (pushes_ == copy_after_ && !is_copied_) Copy();
      Next();
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(Done());
    EXPECT_TRUE(is_copied_);
    EXPECT_EQ(TextOf(first_.chunk().weights().weights()),
              TextOf(second_.chunk().weights().weights()));
    EXPECT_EQ(TextOf(first_.chunk().weights().previous()),
              TextOf(second_.chunk().weights().previous()));
    EXPECT_EQ(first_.chunk().weights().seed_checksum(), second_.chunk().weights().seed_checksum());
    if (!case_.whole_clocks) {
      EXPECT_EQ(AllOf(first_.chunk().Copy(false)), AllOf(second_.chunk().Copy(false)));
    }
  }

 private:
  bool Done() {
    for (size_t node = 0; node < kNodes; ++node) {
      if (!first_.chunk().IsRetired(node)) return false;
    }
    return true;
  }

  void Copy() {
    const ChunkCopy copy = ThroughBytes(first_.chunk().Copy(case_.whole_clocks));
    ASSERT_EQ(second_.chunk().TakeCopy(copy), absl::OkStatus());
    first_.chunk().sums().Keep(case_.whole_clocks);
    is_copied_ = true;
  }

  void Next() {
    now_ += absl::Milliseconds(random_() % 3);
    const size_t node = random_() % kNodes;
    ChunkState& chunk = first_.chunk();
    if (random_() % 8 == 0) return Do([&](World& world) { return world.OnTime(now_); });
    if (chunk.IsRetired(node)) return;
    const uint64_t clock = chunk.Received(node);
    const bool again = clock > 0 && random_() % 6 == 0;
    if (again) incarnation_[node] += random_() % 2;  // perhaps of another process
    if (!again && clock == kClocks && !chunk.IsWaiting(node)) {
      return Do([&](World& world) { return world.Retire(node, now_); });
    }
    if (!again && (clock == kClocks || chunk.IsWaiting(node))) return;
    Push push = {.node = node,
                 .incarnation = incarnation_[node],
                 .clock = again ? clock - 1 : clock,
                 .base_version = Base(node),
                 .checksum = 1 + node,
                 .came_at = now_};
    push.samples = 1 + static_cast<uint32_t>((push.clock + node) % 4);
    push.sum = Random(1000 * node + push.clock);
    pushes_ += again ? 0 : 1;
    Do([&](World& world) { return world.Push(push); });
  }

  uint64_t Base(size_t node) {
    if (!case_.consistency.starts_with("async")) return first_.chunk().weights().version();
    return first_.chunk().WeightsToBeginWith(node).version;
  }

  void Do(const std::function<Seen(World&)>& event) {
    const Seen seen = event(first_);
    if (!is_copied_) return;
    if (!case_.whole_clocks) {
      EXPECT_EQ(seen, event(second_));
      return;
    }
    for (const ClockSum& sum : first_.chunk().sums().Take()) second_.Follow(sum);
    for (size_t node = 0; node < kNodes; ++node) {
      if (first_.chunk().IsRetired(node) && !second_.chunk().IsRetired(node)) {
        second_.Retire(node, now_);
      }
    }
    EXPECT_EQ(first_.chunk().weights().version(), second_.chunk().weights().version());
  }

  const Case case_;
  std::mt19937 random_;
  const ChunkRules rules_;
  World first_, second_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::vector<uint32_t> incarnation_ = std::vector<uint32_t>(kNodes, 1);
  uint64_t pushes_ = 0, copy_after_ = 0;
  bool is_copied_ = false;
};

TEST_P(ChunkCopies, DoTheSameAsTheFirst) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Course(GetParam(), seed).Run();
    ASSERT_FALSE(HasFailure());
  }
}

// A chunk in the midst of a job, as a peer may say it.
ChunkCopy InTheMidst(const Case& one) {
  World world(RulesOf(one));
  world.chunk().Seed(Random(1), 77);
  for (size_t node = 0; node < kNodes; ++node) {
    world.Push({.node = node, .samples = 2, .sum = Random(node), .came_at = absl::UnixEpoch()});
  }
  world.Push({.node = 0,
              .clock = 1,
              .base_version = world.chunk().WeightsToBeginWith(0).version,
              .samples = 2,
              .sum = Random(9),
              .came_at = absl::UnixEpoch()});
  return ThroughBytes(world.chunk().Copy(one.whole_clocks));
}

TEST_P(ChunkCopies, OfAnythingAPeerSaysBreakNothing) {
  const ChunkCopy copy = InTheMidst(GetParam());
  const std::string head = copy.head.SerializeAsString();
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    ChunkCopy other = copy;
    std::string changed = head;
    changed[random() % changed.size()] ^= static_cast<char>(1 << (random() % 8));
    if (!other.head.ParseFromString(changed)) continue;
    if (random() % 4 == 0) other.vectors.pop_back();
    if (random() % 4 == 0) other.vectors[random() % other.vectors.size()] = Bytes();
    World world(RulesOf(GetParam()), true);
    if (!world.chunk().TakeCopy(other).ok()) {
      ++refused;
      continue;
    }
    if (!world.chunk().weights().seeded()) continue;
    for (int push = 0; push < 12; ++push) {
      const size_t node = random() % kNodes;
      world.Push({.node = node,
                  .incarnation = 1 + static_cast<uint32_t>(random() % 2),
                  .clock = world.chunk().Received(node),
                  .samples = 2,
                  .sum = Random(push),
                  .came_at = absl::UnixEpoch()});
    }
  }
  EXPECT_GT(refused, 500);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ChunkCopies,
    testing::Values(
        Case{"Sync", "sync {}"},
        Case{.name = "SyncWholeClocks", .consistency = "sync {}", .whole_clocks = true},
        Case{"SyncEncoded", "sync {}", kernels::Compression::kInt8},
        Case{.name = "SyncEncodedWholeClocks",
             .consistency = "sync {}",
             .answers = kernels::Compression::kOneBit,
             .whole_clocks = true},
        Case{.name = "SyncAsARing", .consistency = "sync {}", .order = proto::Addition::RING},
        Case{"Lazy", "lazy { staleness: 2 }"},
        Case{"LazyEncoded", "lazy { staleness: 2 }", kernels::Compression::kOneBit},
        Case{"Quorum", "lazy { quorum { nodes: 2 grace_ms: 1 } }"},
        Case{"OnArrival", "lazy { staleness: 1 apply: ON_ARRIVAL }"}, Case{"Async", "async {}"},
        Case{"AsyncEncoded", "async {}", kernels::Compression::kFloat16},
        Case{"Compensated", "async { delay_compensation { lambda: 0.04 adaptive: true } }"},
        Case{"Elastic", "async { elastic { moving_rate: 0.9 } }"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::server
