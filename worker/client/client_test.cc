#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/client/aggregator_link.h"
#include "worker/client/arena_image.h"
#include "worker/client/straggler.h"
#include "worker/contract/node_memory.h"
#include "worker/contract/rank_socket.h"

namespace strata::client {

namespace {

// The aggregator's side of one connection, simulated by the test.
class AggregatorLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    launch_.set_node(1);
    launch_.set_node_name("w1");
    launch_.set_local_ranks(1);
    launch_.set_aggregator_socket(
        absl::StrCat("strata-test-", getpid(), "-",
                     testing::UnitTest::GetInstance()->current_test_info()->name()));
    auto listener = worker::ListenAt(launch_.aggregator_socket());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // Refuses the rank; an empty `reason` sends no reason.
  std::thread Refuse(const std::string& reason) {
    return std::thread([this, reason] {
      pollfd wait{listener_.get(), POLLIN, 0};
      poll(&wait, 1, -1);
      socket_ = std::make_unique<FramedChannel>(worker::AcceptFrom(listener_));
      EXPECT_TRUE(worker::SendDescriptors(socket_->fd(), -1, -1).ok());
      if (reason.empty()) return;
      proto::AggregatorMessage message;
      message.set_stopped(reason);
      EXPECT_TRUE(socket_->Send(message).ok());
    });
  }

  proto::Launch launch_;
  UniqueFd listener_;
  std::unique_ptr<FramedChannel> socket_;
};

TEST_F(AggregatorLinkTest, SaysWhyTheAggregatorRefusesIt) {
  std::thread aggregator = Refuse("not a rank of this job");
  auto link = AggregatorLink::Connect(launch_, nullptr);
  ASSERT_TRUE(link.ok()) << link.status();
  absl::Status status = (*link)->Allocate(proto::Layout()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "not a rank of this job");
  aggregator.join();
}

TEST_F(AggregatorLinkTest, DoesNotWaitForEverForAnAggregatorThatOwesAnAnswer) {
  std::thread aggregator = Refuse("");
  auto link = AggregatorLink::Connect(launch_, nullptr, absl::Milliseconds(50));
  ASSERT_TRUE(link.ok()) << link.status();
  absl::Status status = (*link)->Allocate(proto::Layout()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the aggregator of node 1 (w1) has not answered within 50ms");
  aggregator.join();
}

TEST_F(AggregatorLinkTest, TheProgramEndsAWaitForTheAggregator) {
  std::thread aggregator = Refuse("");
  auto link = AggregatorLink::Connect(launch_, nullptr, absl::InfiniteDuration());
  ASSERT_TRUE(link.ok()) << link.status();
  int asked = 0;
  (*link)->AskInWaits(
      [&] { return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("interrupted"); });
  EXPECT_EQ((*link)->Allocate(proto::Layout()).status(), absl::CancelledError("interrupted"));
  aggregator.join();
}

// The aggregator's side of a rank that trains, as far as its memory is concerned.
TEST_F(AggregatorLinkTest, TheProgramEndsAWaitForWeightsAndMayWaitAgain) {
  proto::Layout layout;
  layout.set_elements(4);
  absl::StatusOr<std::unique_ptr<worker::NodeMemory>> memory = worker::NodeMemory::Create(4, 1);
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->header().chunks = 1;
  const UniqueFd doorbell(eventfd(0, EFD_CLOEXEC));
  std::thread aggregator([&] {
    pollfd wait{listener_.get(), POLLIN, 0};
    poll(&wait, 1, -1);
    socket_ = std::make_unique<FramedChannel>(worker::AcceptFrom(listener_));
    EXPECT_TRUE(worker::SendDescriptors(socket_->fd(), (*memory)->fd(), doorbell.get()).ok());
    proto::AggregatorMessage message;
    message.mutable_started()->set_chunk_elements(4);
    EXPECT_TRUE(socket_->Send(message).ok());
  });
  auto link = AggregatorLink::Connect(launch_, nullptr);
  ASSERT_TRUE(link.ok()) << link.status();
  bool interrupts = true;
  (*link)->AskInWaits(
      [&] { return interrupts ? absl::CancelledError("interrupted") : absl::OkStatus(); });
  interrupts = false;
  ASSERT_EQ((*link)->Allocate(layout).status(), absl::OkStatus());
  ASSERT_EQ((*link)->Start({}).status(), absl::OkStatus());
  aggregator.join();
  interrupts = true;
  EXPECT_EQ((*link)->AwaitWeights(ChunkId(0), 0), absl::CancelledError("interrupted"));
  (*memory)->landed(0).store(1);
  EXPECT_EQ((*link)->AwaitWeights(ChunkId(0), 0), absl::OkStatus());
}

std::vector<float> Numbers(size_t count, float first) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// 600 elements, with the two vectors of Adam.
std::vector<ChunkImage> CutInto(uint32_t chunk_elements, uint64_t steps) {
  ArenaImage image(600, 2);
  const std::vector<float> weights = Numbers(600, 0), m = Numbers(600, 1000), v = Numbers(600, 5e3);
  image.CopyFrom(weights.data(), m.data(), v.data());
  return image.Chunks(ChunkMap(600, chunk_elements), steps, 77);
}

TEST(ArenaImageTest, ChunksHaveTheirPartOfEachVectorAndTheCounts) {
  const std::vector<ChunkImage> images = CutInto(256, 5);
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images[2].begin, 512u);
  EXPECT_EQ(images[2].clock, 5u);
  EXPECT_EQ(images[2].weights.version, 5u);
  EXPECT_EQ(images[2].weights.updates, 5u);
  EXPECT_EQ(images[2].weights.samples, 77u);
  ASSERT_EQ(images[2].weights.weights.float_count(), 88u);
  EXPECT_EQ(images[2].weights.weights.floats()[87], 599.0f);
  ASSERT_EQ(images[2].weights.state.size(), 2u);
  EXPECT_EQ(images[2].weights.state[1].floats()[0], 5512.0f);
}

TEST(ArenaImageTest, GoesOnFromChunksOfAnySize) {
  for (const uint32_t chunk_elements : {256u, 1024u}) {
    const absl::StatusOr<ArenaImage> image = ArenaImage::Join(CutInto(chunk_elements, 5), 600, 2);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->samples(), 77u);
    std::vector<float> weights(600), m(600), v(600);
    image->CopyTo(weights.data(), m.data(), v.data());
    EXPECT_EQ(weights, Numbers(600, 0));
    EXPECT_EQ(m, Numbers(600, 1000));
    EXPECT_EQ(v, Numbers(600, 5e3));
  }
}

TEST(ArenaImageTest, AnotherArenaOrOptimizerIsRefused) {
  EXPECT_EQ(ArenaImage::Join(CutInto(256, 5), 601, 2).status().code(), absl::StatusCode::kDataLoss);
  const absl::Status states = ArenaImage::Join(CutInto(256, 5), 600, 1).status();
  EXPECT_EQ(states.message(),
            "the checkpoint has 2 vectors of optimizer state, the job's optimizer 1");
  std::vector<ChunkImage> images = CutInto(256, 5);
  images[1] = CutInto(256, 6)[1];
  EXPECT_EQ(ArenaImage::Join(images, 600, 2).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace

}  // namespace strata::client

namespace strata {
namespace {

constexpr absl::Duration kComputed = absl::Milliseconds(8);

proto::Job JobWith(const std::string& delays) {
  proto::Job job;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString("seed: 3 debug { " + delays + " }", &job));
  return job;
}

TEST(Straggler, DelaysOnlyItsNode) {
  const proto::Job job = JobWith("delays { node: 1 delay_ms: 30 }");
  EXPECT_EQ(Straggler(job, 1, 2).Delay(0, kComputed), absl::Milliseconds(30));
  EXPECT_EQ(Straggler(job, 0, 0).Delay(0, kComputed), absl::ZeroDuration());
}

TEST(Straggler, SlowMakesAStepTakeSoManyTimesItsComputation) {
  const proto::Job job = JobWith("delays { slow: 4 } delays { slow: 1 } delays { slow: 0.5 }");
  EXPECT_EQ(Straggler(job, 0, 0).Delay(7, kComputed), 3 * kComputed);
}

TEST(Straggler, DelaysOfANodeAddUp) {
  const proto::Job job = JobWith("delays { delay_ms: 5 } delays { delay_ms: 1 slow: 2 }");
  EXPECT_EQ(Straggler(job, 0, 0).Delay(7, kComputed), absl::Milliseconds(6) + kComputed);
}

TEST(Straggler, JitterFillsItsRangeAndIsTheSameInEveryRun) {
  const proto::Job job = JobWith("delays { delay_ms: 30 jitter_ms: 10 }");
  const Straggler first(job, 0, 0), again(job, 0, 0), other(job, 0, 1);
  absl::Duration least = absl::InfiniteDuration(), most, sum;
  int equal = 0;
  for (uint64_t step = 0; step < 1000; ++step) {
    const absl::Duration delay = first.Delay(step, kComputed);
    EXPECT_EQ(again.Delay(step, kComputed), delay);
    equal += other.Delay(step, kComputed) == delay ? 1 : 0;
    least = std::min(least, delay);
    most = std::max(most, delay);
    sum += delay;
  }
  EXPECT_GE(least, absl::Milliseconds(20));
  EXPECT_LT(least, absl::Milliseconds(21));
  EXPECT_LE(most, absl::Milliseconds(40));
  EXPECT_GT(most, absl::Milliseconds(39));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(sum) / 1000, 30, 1);
  EXPECT_LT(equal, 5) << "ranks jitter on their own";
}

}  // namespace
}  // namespace strata
