#include "worker/aggregator/one_node_exchange.h"

#include <string>
#include <vector>

#include "common/event_fd.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"

namespace strata::worker {
namespace {

constexpr char kRecord[] =
    "job { exchange: RING program { path: '/p' } optimizer { mean {} } consistency { sync {} } } "
    "view { nodes {} }";

proto::JobRecord RecordOf(const std::string& more) {
  proto::JobRecord record;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(kRecord, &record));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(more, &record)) << more;
  return record;
}

TEST(OneNodeExchange, IsForTheMeanOfOneNodeAsItIs) {
  EXPECT_TRUE(IsMeanOfOneNode(RecordOf("")));
  for (const char* more :
       {"view { nodes {} }", "job { exchange: PARAMETER_SERVER }", "job { optimizer { sgd {} } }",
        "job { device: GPU }", "job { consistency { lazy { local_steps: 2 } } }",
        "job { consistency { lazy { double_buffering: true } } }", "job { trace { steps: 1 } }"}) {
    EXPECT_FALSE(IsMeanOfOneNode(RecordOf(more))) << more;
  }
}

TEST(OneNodeExchange, AChunkThatIsSubmittedLandsAtOnceAndNoneAfterTheEnd) {
  constexpr uint64_t kElements = 600;
  const ChunkMap map(kElements, 256);
  const auto memory = *NodeMemory::Create(kElements, 2);
  AggregatorCore core(RankId(0), 2, map.chunks());
  NodeArenas arenas(memory.get(), &core, map, kernels::Cpu());
  const EventFd wake = *EventFd::Create();
  OneNodeExchange exchange(&arenas, map.chunks(), wake.fd());
  ASSERT_EQ(exchange.Start(), absl::OkStatus());
  ASSERT_EQ(exchange.phase(), Exchange::Phase::kTraining);
  ASSERT_EQ(exchange.Poll(absl::Seconds(1)), absl::OkStatus());
  for (uint64_t clock = 0; clock < 2; ++clock) {
    for (uint32_t r = 0; r < 2; ++r) {
      for (uint64_t i = 0; i < kElements; ++i) memory->gradients(r)[i] = i + r + clock;
      memory->rank(r).samples[clock] = 1;
    }
    const std::vector<uint64_t> ready(2, clock + 1);
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      ASSERT_TRUE(*core.OnReady(ChunkId(c), ready));
      ASSERT_EQ(exchange.Submit(ChunkId(c)), absl::OkStatus());
      EXPECT_EQ(memory->landed(c).load(), clock + 2);
    }
    for (uint64_t i = 0; i < kElements; ++i) ASSERT_EQ(memory->weights()[i], i + 0.5f + clock);
  }
  ASSERT_EQ(exchange.Finish(2), absl::OkStatus());
  EXPECT_EQ(exchange.phase(), Exchange::Phase::kFinished);
  EXPECT_EQ(exchange.Submit(ChunkId(0)).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace strata::worker
