// A chunk that goes on from its image ends with the bits of the chunk that was cut.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/image/image_bytes.h"
#include "common/image/image_file.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {
namespace {

constexpr uint32_t kElements = 37;
constexpr size_t kNodes = 3;
constexpr uint64_t kClocks = 24, kEvery = 5;

Bytes Random(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(kElements);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return FloatBytes(std::move(values));
}

// What a checkpoint does to an image.
ChunkImage ThroughFile(const ChunkImage& image) {
  const auto read = ParseImageFile(OwnBytes(Joined(MakeImageFile({&image, 1}))), "f");
  EXPECT_TRUE(read.ok()) << read.status();
  return read->front();
}

// How a job is in which a chunk lies.
struct Case {
  std::string name, consistency;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  kernels::Compression answers = kernels::Compression::kNone;
  bool exact = true;  // nodes that were given other weights than those of the cut change nothing
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class World {
 public:
  World(const Case& one, size_t nodes) {
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
    chunk_ = std::make_unique<ChunkState>(kernels::Cpu(), pool_, &scratch_, rules_, kElements,
                                          std::vector<OptimizerRun>{{0, kElements, 1.0f, 1.0f}});
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
  // Nodes begin, or begin again.
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
  kernels::EncoderScratch scratch_;
  ChunkRules rules_;
  std::vector<uint64_t> given_;  // versions, by node
  std::unique_ptr<ChunkState> chunk_;
};

// Makes the next push of a node.
Push Next(World& world, size_t node, std::mt19937& random) {
  const uint64_t clock = world.chunk().Received(node);
  return {.node = node,
          .clock = clock,
          .samples = 1 + static_cast<uint32_t>(random() % 4),
          .sum = Random(1000 * node + clock)};
}

// All images of a run, and the pushes that came after each of them: those that its nodes have to
// make again come first.
struct Course {
  std::vector<ChunkImage> images;
  std::vector<Push> pushes;
  Bytes last, last_copy;
};

// Pushes of all nodes come in a random order until each has made so many, and then retires.
void Drive(World& world, Course* course, uint64_t clocks = kClocks, uint32_t seed = 7) {
  std::mt19937 random(seed);
  std::vector<bool> retired(kNodes);
  for (;;) {
    std::vector<size_t> ready;
    for (size_t node = 0; node < kNodes; ++node) {
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

Course RunJob(const Case& one) {
  Course course;
  World world(one, kNodes);
  world.chunk().Seed(Random(1), 1);
  world.Begin();
  Drive(world, &course);
  course.last = world.chunk().weights().weights();
  course.last_copy = world.chunk().WeightsToBeginWith(0).weights;
  return course;
}

bool Same(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

class ChunkImages : public ::testing::TestWithParam<Case> {};

TEST_P(ChunkImages, AreTakenAtEveryNthClockAndGoOnWithTheSameBits) {
  const Course course = RunJob(GetParam());
  // A quorum's clocks are more than its nodes' pushes.
  ASSERT_GE(course.images.size(), (kClocks - 1) / kEvery);
  for (size_t i = 0; i < course.images.size(); ++i) {
    const ChunkImage image = ThroughFile(course.images[i]);
    EXPECT_EQ(image.clock, (i + 1) * kEvery);
    World resumed(GetParam(), kNodes);
    ASSERT_TRUE(resumed.chunk().Restore(image).ok());
    resumed.Begin();
    EXPECT_TRUE(Same(resumed.chunk().WeightsToBeginWith(1).weights,
                     image.copy.empty() ? image.weights.weights : image.copy));
    Course rest;
    if (!GetParam().exact) {
      Drive(resumed, &rest);
      EXPECT_FALSE(rest.pushes.empty());
      for (size_t node = 0; node < kNodes; ++node) {
        EXPECT_EQ(resumed.chunk().Received(node), kClocks);
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
    // The next cuts are those that come after the image.
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

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"Sync", "sync {}"},
      {"Lazy", "lazy { staleness: 2 }"},
      {"OnArrival", "lazy { staleness: 2 apply: ON_ARRIVAL }"},
      {"Async", "async {}"},
      {"Damped", "async { damping: INVERSE_STALENESS }", OptimizerKind::kAdamW,
       kernels::Compression::kNone, /*exact=*/false},
      {"Compensated", "async { delay_compensation { lambda: 0.1 adaptive: true } }",
       OptimizerKind::kSgd, kernels::Compression::kNone, /*exact=*/false},
      {"Elastic", "async { elastic { every_steps: 1 moving_rate: 0.3 } }", OptimizerKind::kSgd,
       kernels::Compression::kNone, /*exact=*/false},
      {"Quorum", "lazy { quorum { nodes: 2 } }", OptimizerKind::kAdamW, kernels::Compression::kNone,
       /*exact=*/false},
  };
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentumSgd, OptimizerKind::kNesterov,
        OptimizerKind::kAdam, OptimizerKind::kRmspropWarmup, OptimizerKind::kMean}) {
    cases.push_back({"Optimizer" + std::to_string(static_cast<int>(kind)), "sync {}", kind});
  }
  for (const kernels::Compression codec :
       {kernels::Compression::kFloat16, kernels::Compression::kBFloat16,
        kernels::Compression::kInt8, kernels::Compression::kOneBit, kernels::Compression::kTopK}) {
    cases.push_back({"Codec" + std::to_string(static_cast<int>(codec)), "sync {}",
                     OptimizerKind::kAdamW, codec});
  }
  cases.push_back({"LazyCodec", "lazy { staleness: 2 }", OptimizerKind::kAdamW,
                   kernels::Compression::kInt8, /*exact=*/false});
  return cases;
}

// Pushes that come too late for the last clock of all are in the weights once all have retired.
TEST(QuorumImages, TheEndIsCutInWhateverOrderPushesCome) {
  const Case quorum = {"Quorum", "lazy { quorum { nodes: 2 } }"};
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Course course;
    World world(quorum, kNodes);
    world.chunk().Seed(Random(1), 1);
    world.Begin();
    Drive(world, &course, 2 * kEvery, seed);
    ASSERT_FALSE(course.images.empty());
    EXPECT_EQ(course.images.back().clock, 2 * kEvery) << "seed " << seed;
    EXPECT_TRUE(Same(course.images.back().weights.weights, world.chunk().weights().weights()));
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, ChunkImages, ::testing::ValuesIn(Cases()),
                         [](const auto& one) { return one.param.name; });

// A cut costs one copy of the optimizer's state and none of the weights.
TEST(ChunkImage, WeightsAreHandedOnAndStateIsCopied) {
  World world({"", "sync {}"}, 1);
  world.chunk().Seed(Random(1), 1);
  world.Begin();
  std::mt19937 random(7);
  for (uint64_t clock = 0; clock < kEvery; ++clock) ASSERT_TRUE(world.Take(Next(world, 0, random)));
  const std::vector<ChunkImage> images = world.chunk().TakeImages();
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0].weights.weights.data(), world.chunk().weights().weights().data());
  const std::vector<float> before(images[0].weights.state[0].floats(),
                                  images[0].weights.state[0].floats() + kElements);
  ASSERT_TRUE(world.Take(Next(world, 0, random)));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), images[0].weights.state[0].floats()));
}

// Clocks that complete together, because the node that all waited for has retired, are all cut.
TEST(ChunkImage, NoClockIsMissedWhereSeveralCompleteAtOnce) {
  World world({"", "lazy { staleness: 12 }"}, 2);
  world.chunk().Seed(Random(1), 1);
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
  const Course course = RunJob({"", "async {}"});
  World resumed({"", "async {}"}, 2);
  ASSERT_TRUE(resumed.chunk().Restore(ThroughFile(course.images[1])).ok());
  EXPECT_EQ(resumed.chunk().Received(0), 2 * kEvery);
  EXPECT_EQ(resumed.chunk().Received(1), 2 * kEvery);
}

TEST(ChunkImage, AnotherOptimizersOrLengthIsRefusedByName) {
  const Course course = RunJob({"", "sync {}"});
  World sgd({"", "sync {}", OptimizerKind::kSgd}, kNodes);
  EXPECT_EQ(sgd.chunk().Restore(course.images[0]).message(),
            "optimizer state of 2 vectors, the job's optimizer has 0");
  ChunkImage shorter = course.images[0];
  shorter.weights.weights = shorter.weights.weights.Part(0, 8);
  World adam({"", "sync {}"}, kNodes);
  EXPECT_EQ(adam.chunk().Restore(shorter).message(), "vectors of 2 elements, the chunk has 37");
  EXPECT_FALSE(adam.chunk().weights().seeded());
  ChunkImage copy = course.images[0];
  copy.copy = copy.weights.weights.Part(0, 4);
  EXPECT_EQ(adam.chunk().Restore(copy).message(), "vectors of 1 elements, the chunk has 37");
}

}  // namespace
}  // namespace strata::server
