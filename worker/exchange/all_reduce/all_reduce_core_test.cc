#include "worker/exchange/all_reduce/all_reduce_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/all_reduce.h"
#include "common/job/trace_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numerics/weight_state.h"
#include "worker/testing/all_reduce_world.h"

namespace strata::worker {
namespace {

using proto::AllReduce;
using World = AllReduceWorld;

constexpr char kAdam[] = "optimizer { adam { weight_decay: 0.01 } } schedule { base_lr: 0.01 }";

// The sum of one element, added in order from node `first` on, around to the one before it.
float RingSum(const World::Options& options, uint32_t first, uint64_t clock, uint64_t i) {
  float sum = World::Gradient(options.seed, first, clock, i);
  for (uint32_t k = 1; k < options.nodes; ++k) {
    sum += World::Gradient(options.seed, (first + k) % options.nodes, clock, i);
  }
  return sum;
}

float TreeSum(const World::Options& options, uint32_t begin, uint32_t end, uint64_t clock,
              uint64_t i) {
  if (end - begin == 1) return World::Gradient(options.seed, begin, clock, i);
  const uint32_t middle = begin + static_cast<uint32_t>(kernels::SumTreeSplit(end - begin));
  return TreeSum(options, begin, middle, clock, i) + TreeSum(options, middle, end, clock, i);
}

// The job's final weights: all sums in one place, one optimizer.
std::vector<float> Expected(const World::Options& options, const proto::JobRecord& record) {
  BufferPool pool;
  const numerics::UpdateRule rule = numerics::MakeUpdateRule(record.job(), 0);
  numerics::WeightState state(kernels::Cpu(), pool, rule, options.elements,
                              OptimizerRuns(record.layout(), 0, options.elements));
  const std::shared_ptr<float> first = pool.AllocateFloats(options.elements);
  for (uint64_t i = 0; i < options.elements; ++i) first.get()[i] = World::FirstWeight(i);
  state.Seed(AsBytes(first, options.elements), 0);
  uint32_t samples = 0;
  for (uint32_t n = 0; n < options.nodes; ++n) samples += World::Samples(n);
  for (uint64_t clock = 0; clock < options.clocks; ++clock) {
    const std::shared_ptr<float> sum = pool.AllocateFloats(options.elements);
    for (uint64_t i = 0; i < options.elements; ++i) {
      const uint64_t chunk = i / options.chunk_elements;
      const auto at = static_cast<uint32_t>(i % options.chunk_elements);
      const auto elements = static_cast<uint32_t>(std::min<uint64_t>(
          options.chunk_elements, options.elements - chunk * options.chunk_elements));
      uint32_t slice = 0;
      while (SliceStart(elements, options.nodes, slice + 1) <= at) ++slice;
      sum.get()[i] = options.algorithm == AllReduce::RING
                         ? RingSum(options, (slice + 1) % options.nodes, clock, i)
                         : TreeSum(options, 0, options.nodes, clock, i);
    }
    state.Apply(AsBytes(sum, options.elements), static_cast<float>(1.0 / samples), samples, {});
  }
  return {state.weights().floats(), state.weights().floats() + options.elements};
}

void ExpectTrains(const World::Options& options, const std::string& what) {
  World world(options);
  ASSERT_TRUE(world.Run()) << what;
  const std::vector<float> expected = Expected(options, world.record());
  for (uint32_t n = 0; n < options.nodes; ++n) {
    EXPECT_EQ(world.status(n), absl::OkStatus()) << what;
    EXPECT_EQ(world.weights(n), expected) << what << ", node " << n;
  }
}

World::Options Shape(uint32_t nodes, AllReduce::Algorithm algorithm) {
  World::Options options;
  options.nodes = nodes;
  options.algorithm = algorithm;
  options.job = kAdam;
  return options;
}

TEST(AllReduceCore, EveryNodeEndsWithTheWeightsOfOneOptimizerInTheAlgorithmsOrder) {
  for (const uint32_t nodes : {1, 2, 3, 4, 5, 8}) {
    ExpectTrains(Shape(nodes, AllReduce::RING), absl::StrCat("ring of ", nodes));
  }
  // Balanced trees, see reduce_plan_test.
  for (const uint32_t nodes : {2, 3, 4, 6, 8}) {
    ExpectTrains(Shape(nodes, AllReduce::HALVING_DOUBLING), absl::StrCat("halving of ", nodes));
  }
}

TEST(AllReduceCore, WhereRanksHaveTheOptimizerEveryNodeGetsTheMeanOfTheLastClock) {
  for (const uint32_t nodes : {1, 3}) {
    World::Options options = Shape(nodes, AllReduce::RING);
    options.job = "optimizer { mean {} }";
    ExpectTrains(options, absl::StrCat("mean of ", nodes));
    World world(options);
    ASSERT_TRUE(world.Run());
    float sum = World::Gradient(options.seed, 0, options.clocks - 1, 0);
    uint32_t samples = World::Samples(0);
    for (uint32_t n = 1; n < nodes; ++n) {
      sum += World::Gradient(options.seed, n, options.clocks - 1, 0);
      samples += World::Samples(n);
    }
    EXPECT_NEAR(world.weights(0)[0], sum / static_cast<float>(samples), 1e-6);
  }
}

// Sums are rounded at each hop, weights once, so all nodes have the same bits, near fp32's.
TEST(AllReduceCore, EncodedWeightsHaveTheSameBitsOnAllNodesAndStayNearThoseOfFp32) {
  for (const char* codec : {"FP16", "BF16"}) {
    for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
      for (const uint32_t nodes : {2, 3, 6, 8}) {
        World::Options options = Shape(nodes, algorithm);
        options.job = absl::StrCat("optimizer { sgd {} } push { codec: ", codec, " }");
        options.elements = 5000;
        options.chunk_elements = 3000;
        options.clocks = 6;
        options.faults.break_both = 0.01;
        options.faults.duplicate = 0.1;
        options.timing.give_up_after = absl::Hours(1);
        World world(options);
        ASSERT_TRUE(world.Run());
        const std::vector<float> expected = Expected(options, world.record());
        for (uint32_t n = 0; n < nodes; ++n) {
          ASSERT_TRUE(world.status(n).ok()) << world.status(n);
          EXPECT_EQ(world.weights(n), world.weights(0))
              << codec << " node " << n << " of " << nodes;
        }
        float largest = 0;
        for (const float weight : expected) largest = std::max(largest, std::abs(weight));
        const float near = largest * (codec[0] == 'F' ? 0x1p-10f : 0x1p-7f);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(world.weights(0)[i], expected[i], near) << codec << " of " << nodes;
        }
        EXPECT_NE(world.weights(0), expected);
      }
    }
  }
}

TEST(AllReduceCore, EncodedItMovesHalfTheBytes) {
  World::Options options = Shape(4, AllReduce::RING);
  options.elements = options.chunk_elements = 65536;
  const auto bytes_of = [&](const char* job) {
    options.job = job;
    World world(options);
    EXPECT_TRUE(world.Run());
    return static_cast<double>(world.counters(0).bytes_pushed + world.counters(0).bytes_answered);
  };
  EXPECT_NEAR(bytes_of("") / bytes_of("push { codec: FP16 }"), 2.0, 0.01);
}

TEST(AllReduceCore, ChunksMayBeSmallerThanTheNodesAreMany) {
  World::Options options = Shape(8, AllReduce::RING);
  options.elements = 256 + 3;
  ExpectTrains(options, "a last chunk of 3 elements");
}

TEST(AllReduceCore, WhateverTheNetworkDoesTheWeightsAreTheSame) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    World::Options options =
        Shape(2 + seed % 4,
              seed % 3 == 0 && seed % 4 != 3 ? AllReduce::HALVING_DOUBLING : AllReduce::RING);
    options.seed = seed;
    options.faults.drop = seed % 5 == 0 ? 0.1 : 0;
    options.faults.duplicate = seed % 5 == 1 ? 0.3 : 0;
    options.faults.reorder = seed % 5 == 2 ? 0.1 : 0;
    options.faults.break_both = seed % 5 == 3 ? 0.02 : 0;
    options.faults.break_one = seed % 5 == 4 ? 0.01 : 0;
    options.faults.refuse = 0.02;
    options.timing.give_up_after = absl::Hours(1);  // HELLO is also lost
    if (seed % 2 == 0) options.job += " connections: 3";
    ExpectTrains(options, absl::StrCat("seed ", seed));
  }
}

TEST(AllReduceCore, NeighboursHaveTheJobsConnectionsButNoneWithoutAChunk) {
  World::Options options = Shape(3, AllReduce::RING);
  for (const auto& [connections, each] : {std::pair{1, 1}, {3, 3}, {16, 4}}) {
    options.job = absl::StrCat(kAdam, " connections: ", connections);
    ExpectTrains(options, options.job);
    World world(options);
    ASSERT_TRUE(world.Run());
    EXPECT_EQ(world.network().count(transport::SimNote::kConnected), 3u * each) << "of 4 chunks";
  }
}

// Otherwise it would stand for several, and only one of them would learn of its end.
TEST(AllReduceCore, AConnectionIsOneLinkOfOneNodeWhateverItSaysLater) {
  World::Options options = Shape(3, AllReduce::RING);
  options.job = "connections: 2";
  World world(options);
  CoreOptions self;
  self.record = world.record();
  self.node = NodeId(2);
  const auto core = *AllReduceCore::Create(self, kernels::Cpu());
  const absl::Time now = absl::FromUnixSeconds(1);
  CoreActions started;
  EXPECT_EQ(core->OnLinkEvent(LinkEvent::Start(), now, &started), absl::OkStatus());
  const auto answers = [&](uint64_t connection, uint32_t node, uint32_t number) {
    CoreOptions peer = self;
    peer.node = NodeId(node);
    LinkIdentity identity = MakeIdentity(peer);
    identity.hello.connection = number;
    CoreActions actions;
    const transport::ConnectionId id(connection);
    EXPECT_TRUE(core->OnLinkEvent(LinkEvent::Frame(id, MakeHello(identity)), now, &actions).ok());
    std::string text;
    for (const WireAction& action : actions.wire) {
      if (action.kind != WireAction::Kind::kSend) continue;
      absl::StrAppend(&text, text.empty() ? "" : ", ", action.connection.value(), " ",
                      wire::ToString(action.frame.header.op));
    }
    return text;
  };
  EXPECT_EQ(answers(5, 0, 0), "5 HELLO_OK");
  EXPECT_EQ(answers(5, 0, 1), "5 ERROR");
  EXPECT_EQ(answers(5, 1, 0), "5 ERROR");
  EXPECT_EQ(answers(5, 0, 0), "5 HELLO_OK");
  EXPECT_EQ(answers(6, 0, 1), "6 HELLO_OK");
  EXPECT_EQ(answers(7, 0, 0), "5 RETRY, 7 HELLO_OK");
}

TEST(AllReduceCore, OnALongWayEachConnectionAddsToWhatIsUnderWay) {
  World::Options options = Shape(2, AllReduce::RING);
  options.elements = 2 << 20;  // 8 MiB, each direction of the link
  options.chunk_elements = options.elements / 16;
  options.window = 16;
  options.clocks = 1;
  options.faults.delay_min = options.faults.delay_max = absl::Milliseconds(50);
  const auto took = [&](int connections) {
    options.job = absl::StrCat("connections: ", connections);
    World world(options);
    EXPECT_TRUE(world.Run());
    EXPECT_EQ(world.status(0), absl::OkStatus());
    return world.took();
  };
  EXPECT_LE(took(4) + absl::Milliseconds(200), took(1)) << "two times there and back";
}

TEST(AllReduceCore, ALinkThatIsDownForThreeSecondsHoldsTheJobUpAndNoMore) {
  World::Options options = Shape(4, AllReduce::RING);
  World world(options);
  world.network().After(absl::Milliseconds(1), [&] { world.network().CutPair(1, 2, true); });
  world.network().After(absl::Seconds(3), [&] { world.network().CutPair(1, 2, false); });
  ASSERT_TRUE(world.Run());
  const std::vector<float> expected = Expected(options, world.record());
  for (uint32_t n = 0; n < 4; ++n) EXPECT_EQ(world.weights(n), expected);
  EXPECT_GE(world.took(), absl::Seconds(3));
}

TEST(AllReduceCore, WhicheverNodeDiesAtWhicheverStepTheOthersFailInTimeAndNameIt) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    World::Options options = Shape(4, algorithm);
    options.elements = options.chunk_elements;  // so that frames are steps
    const uint64_t steps = algorithm == AllReduce::RING ? 2 * 3 : 2 * 2;
    for (uint32_t killed = 0; killed < 4; ++killed) {
      for (uint64_t step = 1; step <= steps; ++step) {
        World world(options);
        world.KillAfter(killed, steps + step);  // in the second clock
        const std::string what = absl::StrCat("node ", killed, " at step ", step);
        ASSERT_TRUE(world.Run()) << what;
        EXPECT_LE(world.took(), options.timing.give_up_after + absl::Seconds(1)) << what;
        for (uint32_t n = 0; n < 4; ++n) {
          if (n == killed) continue;
          EXPECT_FALSE(world.status(n).ok()) << what << ": node " << n << " has finished";
          EXPECT_NE(world.status(n).message().find(
                        absl::StrFormat("node %d (tcp://10.0.0.%d:4000)", killed, killed + 1)),
                    absl::string_view::npos)
              << what << ": " << world.status(n);
        }
      }
    }
  }
}

TEST(AllReduceCore, OtherFirstWeightsOfANodeAreAnErrorThatNamesItAndTheChunk) {
  World::Options options = Shape(3, AllReduce::RING);
  options.other_first_weights = 1;
  World world(options);
  ASSERT_TRUE(world.Run());
  for (uint32_t n = 0; n < 3; ++n) {
    EXPECT_NE(world.status(n).message().find("offers other first weights of chunk 0"),
              absl::string_view::npos)
        << world.status(n);
  }
}

TEST(AllReduceCore, AJobMayBeginWithTheWeightsOfRank0WhateverOtherNodesOffer) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    for (const uint32_t nodes : {2, 3, 6, 8}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        World::Options options = Shape(nodes, algorithm);
        options.takes_first_weights = true;
        options.seed = seed;
        options.job += seed % 3 == 0 ? " connections: 3" : "";
        if (seed > 0) options.faults = {.drop = 0.1, .duplicate = 0.1, .break_both = 0.01};
        options.timing.give_up_after = absl::Hours(1);  // HELLO is also lost
        const std::string what = absl::StrCat(nodes, " nodes, seed ", seed);
        World world(options);
        ASSERT_TRUE(world.Run()) << what;
        for (uint32_t n = 0; n < nodes; ++n) {
          ASSERT_EQ(world.status(n), absl::OkStatus()) << what << ", node " << n;
          for (uint32_t i = 0; i < options.elements; ++i) {
            ASSERT_EQ(world.first_weights(n)[i], World::FirstWeight(i)) << what << ", node " << n;
          }
        }
        ExpectTrains(options, what);
      }
    }
  }
}

TEST(AllReduceCore, NaNInANodesSumEndsTheJobAndNamesNodeChunkAndClock) {
  World::Options options = Shape(3, AllReduce::RING);
  options.elements = options.chunk_elements;
  options.nan_at_clock_1 = 2;
  World world(options);
  ASSERT_TRUE(world.Run());
  for (uint32_t n = 0; n < 3; ++n) {
    EXPECT_EQ(world.status(n).message(),
              "node 2: chunk 0 at clock 1: the sum of the gradients has NaN or infinity");
  }
}

TEST(AllReduceCore, ANodeThatGoesOnWhereOthersHaveFinishedIsAnError) {
  World::Options options = Shape(3, AllReduce::RING);
  options.one_clock_more = 1;
  World world(options);
  ASSERT_TRUE(world.Run());
  for (uint32_t n = 0; n < 3; ++n) {
    EXPECT_NE(world.status(n).message().find("has finished after 3 steps"), absl::string_view::npos)
        << world.status(n);
  }
}

TEST(AllReduceCore, ARingSendsTwiceItsShareOfTheArenaAndLittleBesides) {
  World::Options options = Shape(4, AllReduce::RING);
  options.elements = 64 * 1024;
  options.chunk_elements = 16 * 1024;
  options.clocks = 10;
  World world(options);
  ASSERT_TRUE(world.Run());
  const double least = 2.0 * 3 / 4 * options.elements * sizeof(float) * 10;
  for (uint32_t n = 0; n < 4; ++n) {
    const ExchangeCounters counters = world.counters(n);
    const double sent = static_cast<double>(counters.bytes_pushed + counters.bytes_answered);
    EXPECT_GE(sent, least);
    EXPECT_LE(sent, least * 1.01);
    EXPECT_EQ(counters.pushes, 40u);
    EXPECT_EQ(counters.staleness[0], 40u);
  }
}

TEST(AllReduceCore, ARecordThatDoesNotFitIsRefusedByField) {
  World world(Shape(3, AllReduce::RING));
  const auto create = [&](const auto& change) {
    CoreOptions options;
    options.record = world.record();
    change(&options);
    return std::string(AllReduceCore::Create(options, kernels::Cpu()).status().message());
  };
  EXPECT_EQ(create([](CoreOptions* o) { o->record.mutable_ring()->clear_endpoints(); }),
            "ring.endpoints has 0 entries for 3 nodes");
  EXPECT_EQ(create([](CoreOptions* o) { o->record.mutable_ring()->clear_algorithm(); }),
            "ring.algorithm is 0, not RING or HALVING_DOUBLING");
  EXPECT_EQ(create([](CoreOptions* o) { o->node = NodeId(3); }), "view.nodes does not name node 3");
  EXPECT_EQ(create([](CoreOptions* o) { o->record.mutable_placement()->Clear(); }),
            "placement.chunk_elements is 0");
  EXPECT_EQ(create([](CoreOptions* o) { o->record.mutable_view()->clear_nodes(); }),
            "view.nodes has no nodes");
}

// All-reduces whose ranks give the learning rate of each step.

World::Options AllRatesShape(AllReduce::Algorithm algorithm, const std::string& base_lr,
                             float rate) {
  World::Options options;
  options.nodes = 4;
  options.algorithm = algorithm;
  options.job = "optimizer { momentum_sgd {} } schedule { base_lr: " + base_lr + " }";
  options.rate = rate;
  return options;
}

TEST(AllReduceRates, ARateThatIsSaidTakesThePlaceOfTheSchedules) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    World said(AllRatesShape(algorithm, "100", 0.25f)),
        scheduled(AllRatesShape(algorithm, "0.25", 0));
    ASSERT_TRUE(said.Run());
    ASSERT_TRUE(scheduled.Run());
    EXPECT_EQ(said.status(0), absl::OkStatus());
    EXPECT_EQ(said.weights(0), scheduled.weights(0));
    EXPECT_NE(said.weights(0), said.first_weights(0));
  }
}

TEST(AllReduceRates, NodesThatSayOthersEndTheJobAndAreNamed) {
  for (const auto algorithm : {AllReduce::RING, AllReduce::HALVING_DOUBLING}) {
    World::Options options = AllRatesShape(algorithm, "1", 0.25f);
    options.other_rate = 2;
    World world(options);
    ASSERT_TRUE(world.Run());
    for (uint32_t n = 0; n < options.nodes; ++n) {
      const std::string reason(world.status(n).message());
      bool names_both = false;
      for (const char* who : {"node 0 says learning rate 0.25", "node 1 says learning rate 0.25",
                              "node 2 says learning rate 0.5", "node 3 says learning rate 0.25"}) {
        names_both = names_both || reason.find(who) != std::string::npos;
      }
      EXPECT_TRUE(names_both) << reason;
      EXPECT_NE(reason.find(" at clock 0 of chunk 0, this one 0."), std::string::npos) << reason;
    }
  }
}

// Trace events of an exchange's driver and core, on a simulated network.

using proto::TraceEvent;

// Two nodes, four chunks, five clocks of which the second and third are traced; the clock of the
// traces advances by 1 us per reading, so no two events begin or end together.
class ExchangeTraceTest : public ::testing::Test {
 protected:
  void Run(const transport::SimFaults& faults = {}) {
    proto::Job job;
    job.mutable_trace()->set_first_step(1);
    job.mutable_trace()->set_steps(2);
    AllReduceWorld::Options options;
    options.clocks = 5;
    options.faults = faults;
    for (auto& log : logs_) {
      log = TraceLog::Create(job, {.now = [this] { return absl::FromUnixMicros(++now_us_); }});
      options.traces.push_back(log.get());
    }
    AllReduceWorld world(options);
    ASSERT_TRUE(world.Run());
    for (uint32_t node : {0, 1}) ASSERT_EQ(world.status(node), absl::OkStatus());
  }

  // Returns them by chunk and clock, as recorded.
  std::map<std::pair<uint32_t, uint64_t>, std::vector<TraceEvent>> Events(uint32_t node) {
    std::map<std::pair<uint32_t, uint64_t>, std::vector<TraceEvent>> events;
    while (logs_[node]->has_news()) {
      const proto::TraceBatch batch = logs_[node]->TakeBatch();
      EXPECT_EQ(batch.dropped(), 0u);
      for (const TraceEvent& event : batch.events()) {
        events[{event.chunk(), event.clock()}].push_back(event);
      }
    }
    return events;
  }

  int64_t now_us_ = 0;
  std::unique_ptr<TraceLog> logs_[2];
};

// Returns the first of a phase, which must exist.
const TraceEvent& First(const std::vector<TraceEvent>& events, TraceEvent::Phase phase) {
  const auto is_it = [&](const TraceEvent& event) { return event.phase() == phase; };
  const auto found = std::find_if(events.begin(), events.end(), is_it);
  EXPECT_NE(found, events.end()) << TraceEvent::Phase_Name(phase);
  return found == events.end() ? events.front() : *found;
}

uint64_t EndOf(const TraceEvent& event) { return event.start_us() + event.duration_us(); }

TEST_F(ExchangeTraceTest, EachChunkOfEachTracedClockGoesThroughAllPhasesInOrder) {
  Run();
  for (uint32_t node : {0, 1}) {
    const auto all = Events(node);
    EXPECT_EQ(all.size(), 4u * 2u) << "chunks x clocks, and no others";
    for (const auto& [key, events] : all) {
      EXPECT_THAT(key.second, testing::AnyOf(1u, 2u));
      const TraceEvent& ready = First(events, TraceEvent::READY);
      const TraceEvent& sum = First(events, TraceEvent::SUM);
      const TraceEvent& encode = First(events, TraceEvent::ENCODE);
      const TraceEvent& send = First(events, TraceEvent::SEND);
      const TraceEvent& apply = First(events, TraceEvent::APPLY);
      // Published once the weights of the previous clock had landed; the first one once the job
      // began.
      const auto before = all.find({key.first, key.second - 1});
      EXPECT_GT(ready.start_us(), before == all.end() ? 0 : EndOf(before->second.back()));
      EXPECT_LT(EndOf(ready), sum.start_us());
      EXPECT_LT(EndOf(sum), encode.start_us());
      EXPECT_LE(EndOf(encode), send.start_us());
      EXPECT_GE(apply.start_us(), encode.start_us()) << "what came before may make it due at once";
      EXPECT_EQ(events.back().phase(), TraceEvent::DECODE);
      EXPECT_GT(events.back().start_us(), EndOf(apply));
      EXPECT_EQ(std::count_if(events.begin(), events.end(),
                              [](const TraceEvent& e) { return e.phase() == TraceEvent::APPLY; }),
                1);
    }
  }
}

TEST_F(ExchangeTraceTest, NothingIsNotedTwiceWhereFramesAreLostAndRepeated) {
  transport::SimFaults faults;
  faults.break_both = 0.02;
  Run(faults);
  for (const auto& [key, events] : Events(0)) {
    for (const TraceEvent::Phase once :
         {TraceEvent::READY, TraceEvent::SUM, TraceEvent::ENCODE, TraceEvent::APPLY}) {
      EXPECT_EQ(std::count_if(events.begin(), events.end(),
                              [&](const TraceEvent& e) { return e.phase() == once; }),
                1)
          << TraceEvent::Phase_Name(once);
    }
  }
}

}  // namespace
}  // namespace strata::worker
