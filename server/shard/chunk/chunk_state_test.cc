#include "server/shard/chunk/chunk_state.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/image/image_bytes.h"
#include "common/image/image_file.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {

namespace {

constexpr uint32_t kStateElements = 4;

ChunkRules Rules(size_t nodes, uint32_t staleness) {
  proto::Job job;
  job.mutable_consistency()->mutable_lazy()->set_staleness(staleness);
  ChunkRules rules;
  rules.nodes = nodes;
  rules.mode = *CreateConsistencyMode(
      job, {.of_node = std::vector<uint32_t>(nodes, 1), .total = static_cast<uint32_t>(nodes)});
  rules.update.optimizer.kind = OptimizerKind::kSgd;
  rules.update.schedule.set_base_lr(1.0f);
  return rules;
}

const std::vector<float> kOnes(kStateElements, 1.0f);

Bytes Ones() {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(kOnes.data()),
               kOnes.size() * sizeof(float));
}

// sync holds at most half of the nodes' sums in any order; lazy holds as much for each clock that
// may be incomplete.
TEST(ChunkState, HeldGradientsAreBoundedByNodesAndStaleness) {
  for (size_t nodes : {2, 3, 8, 13}) {
    for (uint32_t staleness : {0, 1, 4}) {
      BufferPool pool;
      numerics::EncoderScratch scratch;
      const ChunkRules rules = Rules(nodes, staleness);
      ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kStateElements,
                       {{0, kStateElements, 1.0f, 1.0f}});
      chunk.Seed(Ones(), 1);
      std::mt19937 random(nodes);
      std::vector<uint64_t> pushed(nodes);
      std::vector<bool> waiting(nodes);
      size_t most = 0;
      for (int step = 0; step < 3000; ++step) {
        const size_t node = random() % nodes;
        if (waiting[node]) continue;
        std::vector<DueAnswer> due;
        waiting[node] = true;
        const PushResult result = chunk.OnPush(
            {.node = node, .clock = pushed[node]++, .samples = 1, .sum = Ones()}, &due);
        ASSERT_EQ(result.error, wire::ErrorCode::kNone) << result.reason;
        for (const DueAnswer& answer : due) waiting[answer.node] = false;
        most = std::max(most, chunk.held());
        ASSERT_LE(chunk.held(), (staleness + 1) * ((nodes + 1) / 2));
      }
      EXPECT_GT(most, 0u);
      EXPECT_GT(chunk.weights().version(), 50u);
    }
  }
}

TEST(ChunkState, APushWithoutSamplesCountsNothing) {
  BufferPool pool;
  numerics::EncoderScratch scratch;
  const ChunkRules rules = Rules(2, 0);
  ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kStateElements,
                   {{0, kStateElements, 1.0f, 1.0f}});
  chunk.Seed(Ones(), 1);
  const std::vector<float> zeros(kStateElements, 0.0f);
  const Bytes none(nullptr, reinterpret_cast<const std::byte*>(zeros.data()),
                   zeros.size() * sizeof(float));
  std::vector<DueAnswer> due;
  const auto push = [&](size_t node, uint64_t clock, uint32_t samples) {
    const PushResult result = chunk.OnPush(
        {.node = node, .clock = clock, .samples = samples, .sum = samples > 0 ? Ones() : none},
        &due);
    EXPECT_EQ(result.error, wire::ErrorCode::kNone) << result.reason;
  };
  push(0, 0, 2);
  push(1, 0, 0);
  EXPECT_EQ(chunk.weights().version(), 1);
  EXPECT_EQ(chunk.weights().weights().floats()[0], 0.5f);  // 1 - 1/2, not 1 - 1/3
  push(0, 1, 0);
  push(1, 1, 0);
  EXPECT_EQ(chunk.weights().version(), 2);
  EXPECT_EQ(chunk.weights().weights().floats()[0], 0.5f);
}

TEST(ChunkState, OlderDuplicatesStaySilentAndTheLastOneIsAnsweredWhenDue) {
  BufferPool pool;
  numerics::EncoderScratch scratch;
  const ChunkRules rules = Rules(2, 0);
  ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kStateElements,
                   {{0, kStateElements, 1.0f, 1.0f}});
  chunk.Seed(Ones(), 1);
  std::vector<DueAnswer> due;
  const auto push = [&](size_t node, uint64_t clock) {
    due.clear();
    return chunk.OnPush({.node = node, .clock = clock, .samples = 1, .sum = Ones()}, &due);
  };
  push(0, 0);
  EXPECT_TRUE(push(0, 0).duplicate);
  EXPECT_TRUE(due.empty()) << "not due yet";
  EXPECT_FALSE(push(1, 0).duplicate);
  EXPECT_EQ(due.size(), 2u);
  EXPECT_TRUE(push(0, 0).duplicate);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].clock, 0u);
  push(0, 1);
  EXPECT_TRUE(push(0, 0).duplicate);
  EXPECT_TRUE(due.empty()) << "its sender has the answer, or it would not have pushed again";
  EXPECT_EQ(chunk.Received(0), 2u);
  EXPECT_EQ(chunk.MinClock(), 1u);
}

// A repeated push may come by another transport than the original.
TEST(ChunkState, ADuplicateIsAConflictOnlyIfBothChecksumsAreKnownAndDiffer) {
  BufferPool pool;
  numerics::EncoderScratch scratch;
  const ChunkRules rules = Rules(2, 0);
  ChunkState chunk(kernels::Cpu(), pool, &scratch, rules, kStateElements,
                   {{0, kStateElements, 1.0f, 1.0f}});
  chunk.Seed(Ones(), 1);
  const auto push = [&](size_t node, uint64_t clock, uint64_t checksum) {
    std::vector<DueAnswer> due;
    return chunk
        .OnPush({.node = node, .clock = clock, .samples = 1, .checksum = checksum, .sum = Ones()},
                &due)
        .error;
  };
  EXPECT_EQ(push(0, 0, 0), wire::ErrorCode::kNone);
  EXPECT_EQ(push(0, 0, 5), wire::ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 5), wire::ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 0), wire::ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 6), wire::ErrorCode::kConflict);
}

// A chunk that is copied in the middle of a job: afterwards original and copy behave identically,
// bit for bit.

constexpr uint32_t kElements = 37;
constexpr size_t kNodes = 3;
constexpr uint64_t kClocks = 12;
constexpr int kSeeds = 60;

// The settings of a chunk's job.
struct Case {
  std::string name, consistency;
  numerics::Compression answers = numerics::Compression::kNone;
  bool whole_clocks = false;  // the copy receives only whole clocks
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

// The answers to one event: one line each, and the bytes of the weights.
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
  // `may_break`: the weights may become impossible to encode.
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
  numerics::EncoderScratch scratch_;
  const ChunkRules rules_;
  const bool may_break_;
  ChunkState chunk_;
};

// A copy that was serialized and parsed.
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

// One job: pushes, repetitions by other processes, time and ends in a seeded random order.
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
    if (again) incarnation_[node] += random_() % 2;  // possibly by another process
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

// A chunk in the middle of a job, as a peer may send it.
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
        Case{"SyncEncoded", "sync {}", numerics::Compression::kInt8},
        Case{.name = "SyncEncodedWholeClocks",
             .consistency = "sync {}",
             .answers = numerics::Compression::kOneBit,
             .whole_clocks = true},
        Case{.name = "SyncAsARing", .consistency = "sync {}", .order = proto::Addition::RING},
        Case{"Lazy", "lazy { staleness: 2 }"},
        Case{"LazyEncoded", "lazy { staleness: 2 }", numerics::Compression::kOneBit},
        Case{"Quorum", "lazy { quorum { nodes: 2 grace_ms: 1 } }"},
        Case{"OnArrival", "lazy { staleness: 1 apply: ON_ARRIVAL }"}, Case{"Async", "async {}"},
        Case{"AsyncEncoded", "async {}", numerics::Compression::kFloat16},
        Case{"Compensated", "async { delay_compensation { lambda: 0.04 adaptive: true } }"},
        Case{"Elastic", "async { elastic { moving_rate: 0.9 } }"}),
    [](const auto& info) { return info.param.name; });

// A chunk that resumes from its image ends with the bits of the original.

constexpr uint32_t kImageElements = 37;
constexpr size_t kImageNodes = 3;
constexpr uint64_t kImageClocks = 24, kEvery = 5;

Bytes ImageRandom(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(kImageElements);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return FloatBytes(std::move(values));
}

// An image after a round trip through a checkpoint.
ChunkImage ThroughFile(const ChunkImage& image) {
  const auto read = ParseImageFile(OwnBytes(Joined(MakeImageFile({&image, 1}))), "f");
  EXPECT_TRUE(read.ok()) << read.status();
  return read->front();
}

// The settings of a chunk's job.
struct ImageCase {
  std::string name, consistency;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  numerics::Compression answers = numerics::Compression::kNone;
  bool exact = true;  // nodes that were given other weights than the image's make no difference
};
void PrintTo(const ImageCase& one, std::ostream* out) { *out << one.name; }

class ImageWorld {
 public:
  ImageWorld(const ImageCase& one, size_t nodes) {
    proto::Job job;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(one.consistency, job.mutable_consistency()));
    FillDefaults(&job);
    rules_.nodes = nodes;
    rules_.mode = *CreateConsistencyMode(
        job, {.of_node = std::vector<uint32_t>(nodes, 1), .total = static_cast<uint32_t>(nodes)});
    rules_.update.optimizer = {.kind = one.optimizer, .weight_decay = 0.01f};
    rules_.update.schedule.set_base_lr(0.05f);
    rules_.update.samples_per_epoch = 64;
    rules_.answers = {{.compression = one.answers, .feedback = kernels::Feedback::kFollow},
                      rules_.mode->answers_alike()};
    rules_.cut_every = kEvery;
    chunk_ =
        std::make_unique<ChunkState>(kernels::Cpu(), pool_, &scratch_, rules_, kImageElements,
                                     std::vector<OptimizerRun>{{0, kImageElements, 1.0f, 1.0f}});
  }

  ChunkState& chunk() { return *chunk_; }

  // Pushes and encodes the answers that are due, as the shard does.
  [[nodiscard]] bool Take(Push push) {
    push.base_version = given_[push.node];
    std::vector<DueAnswer> due;
    const PushResult result = chunk_->OnPush(std::move(push), &due);
    EXPECT_EQ(result.error, wire::ErrorCode::kNone) << result.reason;
    return result.error == wire::ErrorCode::kNone && Answer(due);
  }
  void Retire(size_t node) {
    std::vector<DueAnswer> due;
    chunk_->OnRetire(node, absl::UnixEpoch(), &due);
    EXPECT_TRUE(Answer(due));
  }
  // All nodes begin, or begin again.
  void Begin() { given_.assign(rules_.nodes, chunk_->weights().version()); }

 private:
  bool Answer(const std::vector<DueAnswer>& due) {
    for (const DueAnswer& answer : due) {
      const WeightVersion given = chunk_->WeightsFor(answer);
      given_[answer.node] = given.version;
      if (!chunk_->copies().encodes()) continue;
      if (!chunk_->copies().Next(answer.node, given.weights, given.version).ok()) return false;
    }
    return true;
  }

  BufferPool pool_;
  numerics::EncoderScratch scratch_;
  ChunkRules rules_;
  std::vector<uint64_t> given_;  // versions, by node
  std::unique_ptr<ChunkState> chunk_;
};

// Makes the next push of a node.
Push Next(ImageWorld& world, size_t node, std::mt19937& random) {
  const uint64_t clock = world.chunk().Received(node);
  return {.node = node,
          .clock = clock,
          .samples = 1 + static_cast<uint32_t>(random() % 4),
          .sum = ImageRandom(1000 * node + clock)};
}

// All images of a run, and the pushes after each of them, beginning with those that its nodes must
// repeat.
struct ImageCourse {
  std::vector<ChunkImage> images;
  std::vector<Push> pushes;
  Bytes last, last_copy;
};

// All nodes push in a random order until each has made its number of pushes, and then retires.
void Drive(ImageWorld& world, ImageCourse* course, uint64_t clocks = kImageClocks,
           uint32_t seed = 7) {
  std::mt19937 random(seed);
  std::vector<bool> retired(kImageNodes);
  for (;;) {
    std::vector<size_t> ready;
    for (size_t node = 0; node < kImageNodes; ++node) {
      if (!world.chunk().IsWaiting(node) && !retired[node]) ready.push_back(node);
    }
    if (ready.empty()) return;
    const size_t node = ready[random() % ready.size()];
    if (world.chunk().Received(node) == clocks) {
      world.Retire(node);
      retired[node] = true;
    } else {
      course->pushes.push_back(Next(world, node, random));
      if (!world.Take(course->pushes.back())) return;
    }
    for (ChunkImage& image : world.chunk().TakeImages()) course->images.push_back(std::move(image));
  }
}

ImageCourse RunJob(const ImageCase& one) {
  ImageCourse course;
  ImageWorld world(one, kImageNodes);
  world.chunk().Seed(ImageRandom(1), 1);
  world.Begin();
  Drive(world, &course);
  course.last = world.chunk().weights().weights();
  course.last_copy = world.chunk().WeightsToBeginWith(0).weights;
  return course;
}

bool Same(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

class ChunkImages : public ::testing::TestWithParam<ImageCase> {};

TEST_P(ChunkImages, AreTakenAtEveryNthClockAndGoOnWithTheSameBits) {
  const ImageCourse course = RunJob(GetParam());
  // A quorum has more clocks than its nodes have pushes.
  ASSERT_GE(course.images.size(), (kImageClocks - 1) / kEvery);
  for (size_t i = 0; i < course.images.size(); ++i) {
    const ChunkImage image = ThroughFile(course.images[i]);
    EXPECT_EQ(image.clock, (i + 1) * kEvery);
    ImageWorld resumed(GetParam(), kImageNodes);
    ASSERT_TRUE(resumed.chunk().Restore(image).ok());
    resumed.Begin();
    EXPECT_TRUE(Same(resumed.chunk().WeightsToBeginWith(1).weights,
                     image.copy.empty() ? image.weights.weights : image.copy));
    ImageCourse rest;
    if (!GetParam().exact) {
      Drive(resumed, &rest);
      EXPECT_FALSE(rest.pushes.empty());
      for (size_t node = 0; node < kImageNodes; ++node) {
        EXPECT_EQ(resumed.chunk().Received(node), kImageClocks);
      }
      continue;
    }
    for (const Push& push : course.pushes) {
      if (push.clock < resumed.chunk().Received(push.node)) continue;
      ASSERT_TRUE(resumed.Take(push));
    }
    EXPECT_TRUE(Same(resumed.chunk().weights().weights(), course.last)) << "from " << image.clock;
    EXPECT_TRUE(Same(resumed.chunk().WeightsToBeginWith(0).weights, course.last_copy))
        << "from " << image.clock;
    // The next cuts are those after the image.
    const std::vector<ChunkImage> later = resumed.chunk().TakeImages();
    ASSERT_EQ(later.size(), course.images.size() - i - 1);
    for (size_t k = 0; k < later.size(); ++k) {
      EXPECT_EQ(later[k].clock, course.images[i + 1 + k].clock);
      EXPECT_TRUE(Same(later[k].weights.weights, course.images[i + 1 + k].weights.weights));
      EXPECT_EQ(later[k].weights.samples, course.images[i + 1 + k].weights.samples);
      ASSERT_EQ(later[k].weights.state.size(), course.images[i + 1 + k].weights.state.size());
      for (size_t v = 0; v < later[k].weights.state.size(); ++v) {
        EXPECT_TRUE(Same(later[k].weights.state[v], course.images[i + 1 + k].weights.state[v]));
      }
    }
  }
}

std::vector<ImageCase> Cases() {
  std::vector<ImageCase> cases = {
      {"Sync", "sync {}"},
      {"Lazy", "lazy { staleness: 2 }"},
      {"OnArrival", "lazy { staleness: 2 apply: ON_ARRIVAL }"},
      {"Async", "async {}"},
      {"Damped", "async { damping: INVERSE_STALENESS }", OptimizerKind::kAdamW,
       numerics::Compression::kNone, /*exact=*/false},
      {"Compensated", "async { delay_compensation { lambda: 0.1 adaptive: true } }",
       OptimizerKind::kSgd, numerics::Compression::kNone, /*exact=*/false},
      {"Elastic", "async { elastic { every_steps: 1 moving_rate: 0.3 } }", OptimizerKind::kSgd,
       numerics::Compression::kNone, /*exact=*/false},
      {"Quorum", "lazy { quorum { nodes: 2 } }", OptimizerKind::kAdamW,
       numerics::Compression::kNone,
       /*exact=*/false},
  };
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentumSgd, OptimizerKind::kNesterov,
        OptimizerKind::kAdam, OptimizerKind::kRmspropWarmup, OptimizerKind::kMean}) {
    cases.push_back({"Optimizer" + std::to_string(static_cast<int>(kind)), "sync {}", kind});
  }
  for (const numerics::Compression codec :
       {numerics::Compression::kFloat16, numerics::Compression::kBFloat16,
        numerics::Compression::kInt8, numerics::Compression::kOneBit,
        numerics::Compression::kTopK}) {
    cases.push_back({"Codec" + std::to_string(static_cast<int>(codec)), "sync {}",
                     OptimizerKind::kAdamW, codec});
  }
  cases.push_back({"LazyCodec", "lazy { staleness: 2 }", OptimizerKind::kAdamW,
                   numerics::Compression::kInt8, /*exact=*/false});
  return cases;
}

// Pushes that miss the last clock are in the weights once all nodes have retired.
TEST(QuorumImages, TheEndIsCutInWhateverOrderPushesCome) {
  const ImageCase quorum = {"Quorum", "lazy { quorum { nodes: 2 } }"};
  for (uint32_t seed = 0; seed < 100; ++seed) {
    ImageCourse course;
    ImageWorld world(quorum, kImageNodes);
    world.chunk().Seed(ImageRandom(1), 1);
    world.Begin();
    Drive(world, &course, 2 * kEvery, seed);
    ASSERT_FALSE(course.images.empty());
    EXPECT_EQ(course.images.back().clock, 2 * kEvery) << "seed " << seed;
    EXPECT_TRUE(Same(course.images.back().weights.weights, world.chunk().weights().weights()));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, ChunkImages, ::testing::ValuesIn(Cases()),
                         [](const auto& one) { return one.param.name; });

// A cut copies the optimizer's state once and the weights not at all.
TEST(ChunkImage, WeightsAreHandedOnAndStateIsCopied) {
  ImageWorld world({"", "sync {}"}, 1);
  world.chunk().Seed(ImageRandom(1), 1);
  world.Begin();
  std::mt19937 random(7);
  for (uint64_t clock = 0; clock < kEvery; ++clock) ASSERT_TRUE(world.Take(Next(world, 0, random)));
  const std::vector<ChunkImage> images = world.chunk().TakeImages();
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0].weights.weights.data(), world.chunk().weights().weights().data());
  const std::vector<float> before(images[0].weights.state[0].floats(),
                                  images[0].weights.state[0].floats() + kImageElements);
  ASSERT_TRUE(world.Take(Next(world, 0, random)));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), images[0].weights.state[0].floats()));
}

// Clocks that complete together, because the slowest node has retired, are all cut.
TEST(ChunkImage, NoClockIsMissedWhereSeveralCompleteAtOnce) {
  ImageWorld world({"", "lazy { staleness: 12 }"}, 2);
  world.chunk().Seed(ImageRandom(1), 1);
  world.Begin();
  std::mt19937 random(7);
  for (uint64_t clock = 0; clock < 12; ++clock) ASSERT_TRUE(world.Take(Next(world, 0, random)));
  EXPECT_TRUE(world.chunk().TakeImages().empty());
  world.Retire(1);
  const std::vector<ChunkImage> images = world.chunk().TakeImages();
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].clock, 5u);
  EXPECT_EQ(images[0].weights.version, 5u);
  EXPECT_EQ(images[1].weights.version, 10u);
}

TEST(ChunkImage, GoesOnWithAnotherNumberOfNodesFromItsClock) {
  const ImageCourse course = RunJob({"", "async {}"});
  ImageWorld resumed({"", "async {}"}, 2);
  ASSERT_TRUE(resumed.chunk().Restore(ThroughFile(course.images[1])).ok());
  EXPECT_EQ(resumed.chunk().Received(0), 2 * kEvery);
  EXPECT_EQ(resumed.chunk().Received(1), 2 * kEvery);
}

TEST(ChunkImage, AnotherOptimizersOrLengthIsRefusedByName) {
  const ImageCourse course = RunJob({"", "sync {}"});
  ImageWorld sgd({"", "sync {}", OptimizerKind::kSgd}, kImageNodes);
  EXPECT_EQ(sgd.chunk().Restore(course.images[0]).message(),
            "optimizer state of 2 vectors, the job's optimizer has 0");
  ChunkImage shorter = course.images[0];
  shorter.weights.weights = shorter.weights.weights.Part(0, 8);
  ImageWorld adam({"", "sync {}"}, kImageNodes);
  EXPECT_EQ(adam.chunk().Restore(shorter).message(), "vectors of 2 elements, the chunk has 37");
  EXPECT_FALSE(adam.chunk().weights().seeded());
  ChunkImage copy = course.images[0];
  copy.copy = copy.weights.weights.Part(0, 4);
  EXPECT_EQ(adam.chunk().Restore(copy).message(), "vectors of 1 elements, the chunk has 37");
}

}  // namespace

}  // namespace strata::server
