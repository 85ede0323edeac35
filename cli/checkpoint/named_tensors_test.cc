#include "cli/checkpoint/named_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cli/checkpoint/made_checkpoints.h"
#include "cli/checkpoint/made_store.h"
#include "common/image/image_bytes.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Values = std::vector<float>;

class Named : public MadeStore {
 protected:
  // Reads a checkpoint of step 4 with these nodes. Returns its tensors' values by name; empty: see
  // status_.
  std::map<std::string, Values> Read(const proto::JobRecord& record, bool with_optimizer,
                                     const std::vector<NodeImage>& nodes = {}) {
    const Manifest manifest = *PutCheckpoint(store(), record, 4, MadeImages(record, 4), nodes);
    auto named = NamedTensors::Create(record, with_optimizer);
    status_ = named.status();
    if (!status_.ok()) return {};
    status_ = ReadObjects(store(), manifest, record, (*named)->MakeTaker());
    if (!status_.ok()) return {};
    const auto tensors = (*named)->Tensors();
    status_ = tensors.status();
    if (!status_.ok()) return {};
    std::map<std::string, Values> values;
    shapes_.clear();
    for (const TensorToSave& tensor : *tensors) {
      values[tensor.name] = {tensor.values.begin(), tensor.values.end()};
      shapes_[tensor.name] = tensor.shape;
    }
    notes_ = (*named)->notes();
    return values;
  }
  // The whole arena's weights, or one vector of state.
  static Values Arena(const proto::JobRecord& record, int state = -1) {
    Values all;
    for (const ChunkImage& image : MadeImages(record, 4)) {
      const Bytes& from = state < 0 ? image.weights.weights : image.weights.state[state];
      all.insert(all.end(), from.floats(), from.floats() + from.float_count());
    }
    return all;
  }
  static Values Part(const Values& arena, size_t begin, size_t end) {
    return {arena.begin() + static_cast<ptrdiff_t>(begin),
            arena.begin() + static_cast<ptrdiff_t>(end)};
  }
  static std::vector<std::string> Names(const std::map<std::string, Values>& values) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : values) names.push_back(name);
    return names;
  }

  absl::Status status_;
  std::map<std::string, std::vector<uint64_t>> shapes_;
  std::vector<std::string> notes_;
};

TEST_F(Named, WeightsHaveTheNamesAndShapesOfTheLayout) {
  const proto::JobRecord record = MadeRecord("optimizer { adam {} }");
  const auto values = Read(record, false);
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(Names(values),
              UnorderedElementsAre("0.weight", "0.bias", "running", "1.weight", "scale"));
  const Values arena = Arena(record);
  EXPECT_EQ(values.at("0.weight"), Part(arena, 0, 12));  // of two shards
  EXPECT_EQ(values.at("0.bias"), Part(arena, 12, 16));
  EXPECT_EQ(values.at("running"), Part(arena, 16, 20));
  EXPECT_EQ(values.at("1.weight"), Part(arena, 20, 28));
  EXPECT_EQ(values.at("scale"), Part(arena, 29, 30));
  EXPECT_THAT(shapes_["0.weight"], ElementsAre(4, 3));
  EXPECT_THAT(shapes_["1.weight"], ElementsAre(2, 4));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(Named, AdamsStateIsCalledAsInPyTorch) {
  for (const char* kind : {"adam", "adamw"}) {
    const proto::JobRecord record = MadeRecord(std::string("optimizer { ") + kind + " {} }");
    const auto values = Read(record, true);
    ASSERT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(values.size(), 5u + 4 * 3) << kind;
    EXPECT_EQ(values.at("optimizer/exp_avg/0.weight"), Part(Arena(record, 0), 0, 12));
    EXPECT_EQ(values.at("optimizer/exp_avg_sq/1.weight"), Part(Arena(record, 1), 20, 28));
    EXPECT_EQ(values.at("optimizer/step/0.bias"), Values{4});
    EXPECT_THAT(shapes_["optimizer/step/0.bias"], IsEmpty());
    EXPECT_THAT(shapes_["optimizer/exp_avg/0.weight"], ElementsAre(4, 3));
    EXPECT_FALSE(values.contains("optimizer/exp_avg/running")) << "is averaged, not trained";
    EXPECT_THAT(notes_, IsEmpty());
  }
}

TEST_F(Named, MomentumIsTheBufferOfSgd) {
  for (const char* kind : {"momentum_sgd", "nesterov"}) {
    const proto::JobRecord record = MadeRecord(std::string("optimizer { ") + kind + " {} }");
    const auto values = Read(record, true);
    ASSERT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(values.size(), 5u + 4) << kind;
    EXPECT_EQ(values.at("optimizer/momentum_buffer/1.weight"), Part(Arena(record, 0), 20, 28));
  }
}

TEST_F(Named, TheStepOfRmspropIsNegatedBecausePyTorchSubtractsIt) {
  proto::JobRecord record = MadeRecord("optimizer { rmsprop_warmup {} }");
  record.set_samples_per_epoch(64);
  // Its updates need an epoch's samples, so the images are another optimizer's with as many
  // vectors.
  const proto::JobRecord made = MadeRecord("optimizer { adam {} }");
  auto named = NamedTensors::Create(record, true);
  ASSERT_TRUE(named.ok());
  const ObjectTaker taker = (*named)->MakeTaker();
  for (const ChunkImage& image : MadeImages(made, 4)) taker.on_chunk(image);
  const auto tensors = (*named)->Tensors();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const Values mean_square = Part(Arena(made, 0), 20, 28), delta = Part(Arena(made, 1), 20, 28);
  int found = 0;
  for (const TensorToSave& tensor : *tensors) {
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      if (tensor.name == "optimizer/square_avg/1.weight") {
        EXPECT_EQ(tensor.values[i], mean_square[i]);
        ++found;
      } else if (tensor.name == "optimizer/momentum_buffer/1.weight") {
        EXPECT_EQ(tensor.values[i], -delta[i]);
        ++found;
      }
    }
  }
  EXPECT_EQ(found, 16);
}

TEST_F(Named, AnOptimizerWithoutStateIsSaidToHaveNone) {
  EXPECT_EQ(Read(MadeRecord("optimizer { sgd {} }"), true).size(), 5u);
  EXPECT_THAT(notes_, ElementsAre("sgd keeps no state"));
}

TEST_F(Named, WhereNodesUpdateTheirWeightsAreTheModel) {
  proto::JobRecord record = MadeRecord("optimizer { lars {} }");
  record.mutable_job()->mutable_program()->set_samples_per_rank(4);
  Values weights(30), velocity(30);
  for (size_t i = 0; i < 30; ++i) {
    weights[i] = static_cast<float>(i);
    velocity[i] = static_cast<float>(100 + i);
  }
  const NodeImage node = {.clock = 4,
                          .chunks = {{.begin = 0,
                                      .elements = 30,
                                      .norms = WeightImage{.updates = 4,
                                                           .weights = FloatBytes(weights),
                                                           .state = {FloatBytes(velocity)}}}}};
  const auto values = Read(record, true, {node});
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(values.at("0.weight"), Part(weights, 0, 12));
  EXPECT_EQ(values.at("optimizer/velocity/0.weight"), Part(velocity, 0, 12));
  EXPECT_THAT(Read(record, false), IsEmpty());
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status_.message(),
            "the job's nodes have its weights, and the checkpoint has no object of node 0");
}

TEST_F(Named, WithLocalStepsTheOutersStateIsApart) {
  const proto::JobRecord record = MadeRecord(
      "optimizer { adam {} } consistency { lazy { local_steps: 2 outer { lr: 0.7 momentum: 0.9 } } "
      "} ");
  Values values(30, 0.5f), first(30, 2), second(30, 3);
  const NodeImage node = {.clock = 8,
                          .chunks = {{.begin = 0,
                                      .elements = 30,
                                      .local = LocalStepsImage{
                                          .clock = 8,
                                          .own = {.updates = 8,
                                                  .weights = FloatBytes(values),
                                                  .state = {FloatBytes(first), FloatBytes(second)}},
                                          .start = FloatBytes(values)}}}};
  const auto tensors = Read(record, true, {node});
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(tensors.at("0.weight"), Part(Arena(record), 0, 12)) << "the center's";
  EXPECT_EQ(tensors.at("outer/momentum_buffer/0.bias"), Part(Arena(record, 0), 12, 16));
  EXPECT_EQ(tensors.at("optimizer/exp_avg/0.bias"), Values(4, 2));
  EXPECT_EQ(tensors.at("optimizer/exp_avg_sq/0.bias"), Values(4, 3));
  EXPECT_EQ(tensors.at("optimizer/step/0.bias"), Values{8});
  EXPECT_THAT(notes_,
              ElementsAre("each node has an optimizer of its own: optimizer/ is that of node 0"));
  EXPECT_EQ(Read(record, false).size(), 5u) << "needs no node";
}

TEST_F(Named, PartsWithOtherCountsOfUpdatesGiveTheLeast) {
  const proto::JobRecord record = MadeRecord("optimizer { adam {} }");
  auto named = NamedTensors::Create(record, true);
  const ObjectTaker taker = (*named)->MakeTaker();
  std::vector<ChunkImage> images = MadeImages(record, 4);
  images[1].weights.updates = 3;  // elements 8 to 15
  for (const ChunkImage& image : images) taker.on_chunk(image);
  const auto tensors = (*named)->Tensors();
  std::map<std::string, float> steps;
  for (const TensorToSave& tensor : *tensors) {
    if (tensor.shape.empty()) steps[tensor.name] = tensor.values[0];
  }
  EXPECT_EQ(steps["optimizer/step/0.weight"], 3);
  EXPECT_EQ(steps["optimizer/step/0.bias"], 3);
  EXPECT_EQ(steps["optimizer/step/1.weight"], 4);
  EXPECT_THAT((*named)->notes(),
              ElementsAre("parts of the model have had different counts of updates: step is the "
                          "least"));
}

TEST_F(Named, TheMeanIsNoModel) {
  Read(MadeRecord("optimizer { mean {} }"), false);
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status_.message(), testing::HasSubstr("its program has the weights"));
}

TEST_F(Named, TwoTensorsOfOneNameAreRefused) {
  proto::JobRecord record = MadeRecord("optimizer { adam {} }");
  record.mutable_layout()->mutable_segments(5)->set_name("optimizer/exp_avg/0.bias");
  EXPECT_EQ(Read(record, false).size(), 5u);
  Read(record, true);
  EXPECT_EQ(status_.message(), "two tensors are called optimizer/exp_avg/0.bias");
}

}  // namespace
}  // namespace strata::cli
