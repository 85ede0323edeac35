// Nodes of an all-reduce that resume from images end with the bits of the original nodes.
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "worker/exchange/all_reduce/chunk_reduction.h"

namespace strata::worker {
namespace {

constexpr uint32_t kElements = 37, kChunkElements = 20;

Bytes Floats(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

proto::JobRecord Record(const std::string& job, uint32_t nodes,
                        proto::AllReduce::Algorithm algorithm) {
  proto::JobRecord record;
  *record.mutable_job() =
      *ParseJob(absl::StrCat("name: 'j' program { path: 'p' } exchange: RING ", job), "j");
  FillDefaults(record.mutable_job());
  record.set_samples_per_epoch(100);
  for (uint32_t n = 0; n < nodes; ++n) record.mutable_view()->add_nodes()->set_ranks(1);
  record.mutable_ring()->set_algorithm(algorithm);
  proto::Segment* segment = record.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(kElements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  record.mutable_layout()->set_elements(kElements);
  return record;
}

// All nodes' parts of one chunk, the arena's last, connected without a network.
class Nodes {
 public:
  Nodes(const proto::JobRecord& record, uint32_t chunk)
      : map_(kElements, kChunkElements), chunk_(chunk) {
    const auto nodes = static_cast<uint32_t>(record.view().nodes_size());
    for (uint32_t n = 0; n < nodes; ++n) {
      rules_.push_back(std::make_unique<ReductionRules>(
          ReductionRules::Of(record, kernels::Cpu(), &pool_, n, nullptr)));
    }
    for (uint32_t n = 0; n < nodes; ++n) {
      parts_.push_back(
          std::make_unique<ChunkReduction>(rules_[n].get(), record.layout(), map_, chunk_));
    }
    weights_.assign(nodes, std::vector<float>(map_.ElementsOf(chunk_)));
  }

  void Seed() {
    for (size_t n = 0; n < parts_.size(); ++n) {
      for (size_t i = 0; i < weights_[n].size(); ++i) weights_[n][i] = 1.0f + i / 4.0f;
      parts_[n]->Seed(Floats(weights_[n]));
    }
  }
  void Restore(const Nodes& from) {
    weights_ = from.weights_;
    for (size_t n = 0; n < parts_.size(); ++n) {
      const absl::Status status =
          parts_[n]->Restore(from.parts_[n]->Image(), from.parts_[n]->clock());
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  ChunkReduction& part(size_t node) { return *parts_[node]; }
  // The weights of each node.
  const std::vector<std::vector<float>>& weights() const { return weights_; }

  void Step() {
    const uint64_t clock = parts_[0]->clock();
    for (uint32_t n = 0; n < parts_.size(); ++n) {
      std::vector<float> sum(weights_[n].size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = std::sin(0.7f * i + 3.0f * n + clock);
      ReductionActions actions;
      ASSERT_TRUE(parts_[n]->Begin(Floats(sum), {.samples = n + 1}, &actions).ok());
      Do(n, std::move(actions));
    }
    while (!under_way_.empty()) {
      auto [from, to, frame] = std::move(under_way_.front());
      under_way_.pop_front();
      ReductionActions actions;
      const absl::Status status = parts_[to]->OnFrame(from, frame, &actions);
      ASSERT_TRUE(status.ok()) << status;
      Do(to, std::move(actions));
    }
    for (const auto& part : parts_) ASSERT_EQ(part->clock(), clock + 1);
  }

 private:
  struct Sent {
    uint32_t from = 0, to = 0;
    wire::Frame frame;
  };

  void Do(uint32_t node, ReductionActions actions) {
    for (auto& send : actions.sends) {
      under_way_.push_back({node, send.peer, {send.header, std::move(send.payload)}});
    }
    for (const auto& delivery : actions.deliveries) {
      float* const to = weights_[node].data() + delivery.first_element;
      if (delivery.delta) {
        delivery.delta->AddTo(to, to);
      } else {
        std::copy_n(delivery.weights.floats(), delivery.weights.float_count(), to);
      }
    }
  }

  const ChunkMap map_;
  const ChunkId chunk_;
  BufferPool pool_;
  std::vector<std::unique_ptr<ReductionRules>> rules_;
  std::vector<std::unique_ptr<ChunkReduction>> parts_;
  std::vector<std::vector<float>> weights_;
  std::deque<Sent> under_way_;
};

TEST(ChunkReductionImage, NodesGoOnWithTheSameBits) {
  for (const auto algorithm : {proto::AllReduce::RING, proto::AllReduce::HALVING_DOUBLING}) {
    for (const uint32_t nodes : {1, 3, 4}) {
      for (const std::string codec : {"", "push { codec: FP16 }", "push { codec: INT8 }"}) {
        for (const std::string optimizer : {"sgd {}", "momentum_sgd {}", "adamw {}"}) {
          const proto::JobRecord record =
              Record(absl::StrCat("optimizer { ", optimizer, " } ", codec), nodes, algorithm);
          for (const uint32_t chunk : {0, 1}) {
            Nodes undisturbed(record, chunk), resumed(record, chunk);
            undisturbed.Seed();
            for (int clock = 0; clock < 3; ++clock) undisturbed.Step();
            resumed.Restore(undisturbed);
            for (int clock = 0; clock < 3; ++clock) {
              undisturbed.Step();
              resumed.Step();
              ASSERT_EQ(resumed.weights(), undisturbed.weights())
                  << nodes << " nodes, " << optimizer << codec;
            }
          }
        }
      }
    }
  }
}

TEST(ChunkReductionImage, WhatDoesNotFitIsRefusedByName) {
  const auto ring = proto::AllReduce::RING;
  Nodes nodes(Record("optimizer { adamw {} }", 2, ring), 0);
  nodes.Seed();
  nodes.Step();
  const std::optional<ChunkImage> first = nodes.part(0).Image(), second = nodes.part(1).Image();
  Nodes adam(Record("optimizer { adamw {} }", 2, ring), 0);
  EXPECT_EQ(adam.part(0).Restore(second, 1).message(),
            absl::StrCat("an image of the elements from ", second->begin,
                         " on at clock 1, not from ", first->begin, " at clock 1"));
  EXPECT_EQ(adam.part(0).Restore(first, 2).message(),
            absl::StrCat("an image of the elements from ", first->begin,
                         " on at clock 1, not from ", first->begin, " at clock 2"));
  EXPECT_EQ(adam.part(0).Restore(std::nullopt, 1).message(),
            "chunk 0: 16 elements are this node's, but there is no image of them");
  Nodes half(Record("optimizer { adamw {} } push { codec: FP16 }", 2, ring), 0);
  EXPECT_EQ(half.part(0).Restore(first, 1).message(), "an image of another push.codec");
  Nodes sgd(Record("optimizer { sgd {} }", 2, ring), 0);
  EXPECT_EQ(sgd.part(0).Restore(first, 1).message(),
            "optimizer state of 2 vectors, the job's optimizer has 0");
}

}  // namespace
}  // namespace strata::worker
