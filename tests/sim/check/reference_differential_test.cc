// Compares the shard with the model: in any order of arrival, both give the same bits, versions and
// answers after every push.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"
#include "tests/sim/check/reference_chunk.h"

namespace strata::sim {
namespace {

using Due = ReferenceChunk::Due;

constexpr uint32_t kElements = 23, kChunkElements = 9, kChunks = 3, kNodes = 5;

// Bits, so that -0 is not 0.
std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

proto::JobRecord DifferentialRecordOf(const std::string& mode, const std::string& optimizer,
                                      const std::string& schedule) {
  proto::JobRecord record = server::MakeRecord(
      {.ranks = {2, 1, 4, 1, 3},
       .elements = kElements,
       .chunk_elements = kChunkElements,
       .job_text = absl::StrCat("epochs: 3 optimizer { ", optimizer, " } schedule { ", schedule,
                                " } consistency { ", mode, " }")});
  record.set_samples_per_epoch(220);
  proto::Layout* layout = record.mutable_layout();
  layout->clear_segments();
  for (const uint32_t size : {4, 2, 7, 10}) {  // borders of segments and chunks differ
    proto::Segment* segment = layout->add_segments();
    segment->add_shape(size);
    segment->set_offset(layout->segments_size() == 1
                            ? 0
                            : layout->segments(layout->segments_size() - 2).offset() +
                                  layout->segments(layout->segments_size() - 2).shape(0));
    segment->set_lr_multiplier(size == 7 ? 2.0f : 1.0f);
    segment->set_decay_multiplier(size == 2 ? 0.0f : 0.75f);
  }
  return record;
}

// One job on one shard, and the model of each of its chunks.
class Twins {
 public:
  Twins(uint32_t seed, const proto::JobRecord& record) : random_(seed), record_(record) {
    EXPECT_TRUE(shard_.core().Install(record, ShardId(0)).ok());
    for (uint32_t node = 0; node < kNodes; ++node) {
      connections_.push_back(shard_.Join(record, node));
      steps_.push_back(3 + random_() % 4);
    }
    for (uint32_t c = 0; c < kChunks; ++c) {
      const std::vector<float> first = Values(c + 1 < kChunks ? 9 : 5);
      shard_.DeliverForOne(connections_[0], server::InitFrame(record, 0, c, first));
      models_.push_back(std::make_unique<ReferenceChunk>(record, ChunkId(c), first));
      chunks_.emplace_back(kNodes);
    }
  }

  // Returns false when everything has been sent.
  bool Step() {
    const uint32_t node = random_() % kNodes, chunk = random_() % kChunks;
    if (retired_ == kNodes) return false;
    if (MayRetire(node)) {
      Retire(node);
    } else if (NodeChunk& at = chunks_[chunk][node]; !at.waiting && at.clock < steps_[node]) {
      Push(node, chunk);
      if (random_() % 4 == 0) Repeat(node, chunk);
    }
    Probe(chunk);
    return true;
  }

  // After the end, CUT returns the final weights.
  void ExpectEqualEnds() {
    for (uint32_t c = 0; c < kChunks; ++c) {
      const wire::Frame answer = shard_.DeliverForOne(
          connections_[c], server::ControlFrame(record_, wire::Op::kCut, c, c, steps_[c]));
      EXPECT_EQ(answer.header.op, wire::Op::kCutAnswer);
      ExpectSameState(c, answer);
    }
  }

 private:
  struct NodeChunk {
    uint64_t clock = 0;    // of the next push
    uint64_t version = 0;  // of the present weights
    bool waiting = false;
    wire::Frame last;
  };

  std::vector<float> Values(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = std::uniform_real_distribution<float>(-3, 3)(random_);
      if (random_() % 8 == 0) value *= 1e6f;
      if (random_() % 16 == 0) value = -0.0f;
    }
    return values;
  }

  bool MayRetire(uint32_t node) {
    if (std::count(gone_.begin(), gone_.end(), node) > 0) return false;
    return std::all_of(chunks_.begin(), chunks_.end(), [&](const std::vector<NodeChunk>& nodes) {
      return nodes[node].clock == steps_[node] && !nodes[node].waiting;
    });
  }

  void Push(uint32_t node, uint32_t chunk) {
    NodeChunk& at = chunks_[chunk][node];
    ReferencePush push = {.node = node, .clock = at.clock++, .base_version = at.version};
    const uint32_t kind = random_() % 8;  // 0: no sample, 1: samples without a gradient
    push.samples = kind == 0 ? 0 : 1 + random_() % 20;
    if (kind > 1) push.sum = Values(models_[chunk]->weights().size());
    at.last = server::PushFrame(record_, node, chunk, push.clock, push.sum, push.samples,
                                push.base_version);
    if (push.sum.empty()) at.last.header.flags = wire::kFlagEmpty;
    at.waiting = true;
    const std::vector<server::Sent> sent = shard_.Deliver(connections_[node], at.last);
    ExpectDue(chunk, models_[chunk]->OnPush(std::move(push)), sent);
  }

  void Retire(uint32_t node) {
    gone_.push_back(node);
    ++retired_;
    std::vector<server::Sent> sent =
        shard_.Deliver(connections_[node],
                       server::ControlFrame(record_, wire::Op::kRetire, node, 0, steps_[node]));
    for (uint32_t c = 0; c < kChunks; ++c) {
      std::vector<server::Sent> of_chunk;
      for (const server::Sent& one : sent) {
        const wire::Header& header = one.frame.header;
        if (header.op == wire::Op::kAnswer && header.chunk == c) of_chunk.push_back(one);
      }
      ExpectDue(c, models_[c]->OnRetire(node), of_chunk);
    }
  }

  // A duplicate changes nothing; it is answered if the push has been.
  void Repeat(uint32_t node, uint32_t chunk) {
    const NodeChunk& at = chunks_[chunk][node];
    const std::vector<server::Sent> sent = shard_.Deliver(connections_[node], at.last);
    ASSERT_EQ(sent.size(), at.waiting ? 0u : 1u);
    if (!sent.empty()) ExpectSameState(chunk, sent[0].frame);
  }

  // Reads the newest weights through a duplicate of an answered push, if there is one.
  void Probe(uint32_t chunk) {
    for (uint32_t node = 0; node < kNodes; ++node) {
      const NodeChunk& at = chunks_[chunk][node];
      if (at.clock == 0 || at.waiting) continue;
      return Repeat(node, chunk);
    }
  }

  void ExpectDue(uint32_t chunk, const std::vector<Due>& due,
                 const std::vector<server::Sent>& sent) {
    std::vector<Due> answered;
    for (const server::Sent& one : sent) {
      const wire::Header& header = one.frame.header;
      ASSERT_EQ(header.op, wire::Op::kAnswer) << wire::ToString(header.op);
      answered.push_back({header.node, header.clock, header.staleness, header.version});
      EXPECT_EQ(header.received, models_[chunk]->received(header.node));
      chunks_[chunk][header.node].waiting = false;
      // A node may compute on older weights than its newest.
      if (random_() % 3 > 0) chunks_[chunk][header.node].version = header.version;
      ExpectSameState(chunk, one.frame);
    }
    ASSERT_EQ(answered.size(), due.size());
    EXPECT_TRUE(answered == due);
    EXPECT_EQ(models_[chunk]->violation(), "");
  }

  void ExpectSameState(uint32_t chunk, const wire::Frame& frame) {
    EXPECT_EQ(frame.header.version, models_[chunk]->version());
    EXPECT_EQ(frame.header.min_clock, models_[chunk]->min_clock());
    EXPECT_EQ(BitsOf(server::ToFloats(frame)), BitsOf(models_[chunk]->weights()));
  }

  std::mt19937 random_;
  const proto::JobRecord record_;
  server::ShardHarness shard_;
  std::vector<transport::ConnectionId> connections_;
  std::vector<uint64_t> steps_;  // of each node
  std::vector<std::unique_ptr<ReferenceChunk>> models_;
  std::vector<std::vector<NodeChunk>> chunks_;  // by chunk and node
  std::vector<uint32_t> gone_;
  uint32_t retired_ = 0;
};

const char* const kOptimizers[] = {
    "sgd { weight_decay: 0.01 }",
    "momentum_sgd { momentum: 0.8 weight_decay: 0.02 }",
    "nesterov { weight_decay: 0.01 }",
    "adam { beta2: 0.99 weight_decay: 0.01 }",
    "adamw { beta1: 0.8 epsilon: 0.0001 }",
    "adagrad { initial_accumulator: 0.1 }",
    "ftrl { l1: 0.01 l2: 0.1 weight_decay: 0.01 }",
};
const char* const kSchedules[] = {
    "base_lr: 0.3",
    "base_lr: 0.1 warmup_epochs: 0.7",
    "warmup_epochs: 0.3 step { boundaries_epochs: 0.5 boundaries_epochs: 1.2 gamma: 0.3 }",
    "base_lr: 0.2 warmup_epochs: 0.4 cosine { final_lr: 0.01 }",
};

class ShardAgainstModel : public testing::TestWithParam<const char*> {};

TEST_P(ShardAgainstModel, SameBitsVersionsAndAnswersAfterEveryPush) {
  for (const char* optimizer : kOptimizers) {
    for (const char* schedule : kSchedules) {
      for (uint32_t seed = 0; seed < 25; ++seed) {
        Twins twins(seed, DifferentialRecordOf(GetParam(), optimizer, schedule));
        int steps = 0;
        while (twins.Step()) {
          ASSERT_LT(++steps, 100000) << "it does not end";
          ASSERT_FALSE(HasFailure()) << optimizer << ", " << schedule << ", seed " << seed;
        }
        twins.ExpectEqualEnds();
        ASSERT_FALSE(HasFailure()) << optimizer << ", " << schedule << ", seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardAgainstModel,
                         testing::Values("sync {}", "lazy { staleness: 0 }",
                                         "lazy { staleness: 2 }", "lazy { staleness: 5 }",
                                         "lazy { staleness: 0 apply: ON_ARRIVAL }",
                                         "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}",
                                         "async { damping: INVERSE_STALENESS }",
                                         "lazy { quorum { nodes: 1 } }"));

}  // namespace
}  // namespace strata::sim
