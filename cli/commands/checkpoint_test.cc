#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cli/commands/checkpoint_list.h"
#include "cli/commands/checkpoint_objects.h"
#include "cli/commands/export_checkpoint.h"
#include "cli/commands/made_checkpoints.h"
#include "cli/commands/named_tensors.h"
#include "cli/commands/verify_checkpoint.h"
#include "common/checkpoint/checkpoints.h"
#include "common/image/image_bytes.h"
#include "common/image/image_file.h"
#include "common/image/safetensors.h"

namespace strata::cli {

namespace {

using ::testing::HasSubstr;

class ListOf : public MadeStore {
 protected:
  std::vector<CheckpointEntry> List() {
    const auto entries = ListCheckpoints(store());
    EXPECT_TRUE(entries.ok()) << entries.status();
    return entries.ok() ? *entries : std::vector<CheckpointEntry>();
  }
};

TEST_F(ListOf, SaysWhichAreCompleteAndWhyOthersAreNot) {
  for (const uint64_t step : {2, 4, 6, 8, 10}) Make(step);
  Remove(4, "shard-1");
  Remove(6, "manifest.json");
  Put(8, "manifest.json", "no manifest at all, whatever reads it");
  const std::vector<CheckpointEntry> entries = List();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].clock, 2u);
  EXPECT_EQ(entries[0].state, CheckpointState::kComplete);
  EXPECT_EQ(entries[0].why, "");
  EXPECT_EQ(entries[1].state, CheckpointState::kBroken);
  EXPECT_EQ(entries[1].why, "shard-1: is not there");
  EXPECT_EQ(entries[1].objects, 1u);
  EXPECT_EQ(entries[2].state, CheckpointState::kIncomplete);
  EXPECT_EQ(entries[2].why, "2 objects of 2, no manifest");
  EXPECT_EQ(entries[3].state, CheckpointState::kBroken);
  EXPECT_EQ(entries[3].why,
            "manifest.json: not a checkpoint's manifest: its checksum is another one");
  EXPECT_EQ(entries[3].objects, 2u);
  EXPECT_EQ(entries[4].clock, 10u);
  EXPECT_EQ(entries[4].state, CheckpointState::kComplete);
}

TEST_F(ListOf, NoneIsAnErrorThatNamesTheStore) {
  const auto entries = ListCheckpoints(store());
  EXPECT_EQ(entries.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(entries.status().message(), store().where() + ": no checkpoint there");
}

TEST_F(ListOf, AStepThatIsNotThereIsAnErrorThatNamesThoseThatAre) {
  Make(2);
  Make(4);
  const auto entry = FindCheckpoint(List(), 3, "d");
  EXPECT_EQ(entry.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(entry.status().message(), "d: no checkpoint of step 3; there are those of 2, 4");
  EXPECT_EQ(FindCheckpoint(List(), 4, "d")->clock, 4u);
}

TEST_F(ListOf, IsATableForPeople) {
  const Manifest manifest = Make(2);
  Put(4, "shard-0", "half of it");
  EXPECT_EQ(CheckpointsText(List()),
            "step  job  name  written                  size     objects  state\n"
            "2     7    made  2027-01-15 08:00:02 UTC  1.59 kB  2        complete\n"
            "4     -    -     -                        -        1        "
            "incomplete: 1 object of 2, no manifest\n");
}

TEST_F(ListOf, IsJsonForScripts) {
  const Manifest manifest = Make(2);
  Put(4, "shard-0", "half of it");
  const auto json = nlohmann::json::parse(CheckpointsJson(List()));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["step"], 2);
  EXPECT_EQ(json[0]["job_id"], 7);
  EXPECT_EQ(json[0]["name"], "made");
  EXPECT_EQ(json[0]["written"], "2027-01-15T08:00:02+00:00");
  EXPECT_EQ(json[0]["bytes"], BytesOf(manifest));
  EXPECT_EQ(json[0]["state"], "complete");
  EXPECT_TRUE(json[1]["bytes"].is_null());
  EXPECT_EQ(json[1]["state"], "incomplete");
}

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr char kAdam[] = "optimizer { adam {} }";

class ObjectsOf : public MadeStore {
 protected:
  // Returns the error for a checkpoint of step 4 of these images; empty: none.
  std::string WhyNot(const proto::JobRecord& record, const std::vector<ChunkImage>& images,
                     const std::vector<NodeImage>& nodes = {}) {
    return WhyNot(*PutCheckpoint(store(), record, 4, images, nodes));
  }
  std::string WhyNot(const Manifest& manifest) {
    const auto record = RecordOf(manifest, store().where());
    const absl::Status status =
        record.ok() ? ReadObjects(store(), manifest, *record, {}) : record.status();
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  }
  // Returns the error after `change` has been made to the images of step 4.
  std::string WhyNotWith(const std::function<void(std::vector<ChunkImage>*)>& change) {
    std::vector<ChunkImage> images = MadeImages(record_, 4);
    change(&images);
    return WhyNot(record_, images);
  }

  const proto::JobRecord record_ = MadeRecord(kAdam);
};

TEST_F(ObjectsOf, AWholeOneAreReadOneAfterTheOther) {
  const Manifest manifest = *PutCheckpoint(store(), record_, 4, MadeImages(record_, 4));
  std::vector<std::string> order;
  uint64_t elements = 0;
  const ObjectTaker taker = {
      .on_object =
          [&](const ObjectFacts& object, uint64_t before) {
            order.push_back(object.name + " " + std::to_string(before));
          },
      .on_chunk =
          [&](const ChunkImage& image) { elements += image.weights.weights.float_count(); }};
  EXPECT_TRUE(ReadObjects(store(), manifest, record_, taker).ok());
  const std::string first = Checkpoints::ObjectName(4, "shard-0");
  const std::string second = Checkpoints::ObjectName(4, "shard-1");
  EXPECT_THAT(order, testing::ElementsAre(
                         first + " 0", second + " " + std::to_string(manifest.objects[0].bytes)));
  EXPECT_EQ(elements, 30u);
}

TEST_F(ObjectsOf, OneWhoseFileIsNotAsWrittenAreRefusedByName) {
  const Manifest manifest = *PutCheckpoint(store(), record_, 4, MadeImages(record_, 4));
  const std::string path = PathOf(4, "shard-1");
  const std::string whole = [&] {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  std::string flipped = whole;
  flipped[whole.size() - 3] ^= 1;
  Put(4, "shard-1", flipped);
  EXPECT_THAT(WhyNot(manifest), StartsWith(path + ": checksum "));
  Put(4, "shard-1", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(WhyNot(manifest), path + ": " + std::to_string(whole.size() - 1) +
                                  " bytes, its manifest says " + std::to_string(whole.size()));
  Remove(4, "shard-1");
  EXPECT_THAT(WhyNot(manifest), StartsWith(path + ": "));
  Put(4, "shard-1", whole);
  EXPECT_EQ(WhyNot(manifest), "");
}

TEST_F(ObjectsOf, OneThatLacksARangeOrHasItTwiceAreRefused) {
  EXPECT_EQ(
      WhyNotWith([](auto* images) { images->erase(images->begin() + 2); }),
      PathOf(4, "").substr(0, PathOf(4, "").size() - 1) + ": elements 16 to 23 are in no object");
  EXPECT_EQ(WhyNotWith([](auto* images) { (*images)[1].begin = 4; }),
            PathOf(4, "shard-1") + ": has element 4, which " + PathOf(4, "shard-0") + " has, too");
  EXPECT_THAT(WhyNotWith([](auto* images) { (*images)[3].begin = 25; }),
              EndsWith("shard-1: 6 elements from element 25 on, but the job has 30"));
}

TEST_F(ObjectsOf, OneOfAnotherStepOrOptimizerAreRefused) {
  EXPECT_EQ(WhyNotWith([](auto* images) { (*images)[1].clock = 5; }),
            PathOf(4, "shard-1") +
                ": the range from element 8 on is of step 5, the checkpoint of step 4");
  EXPECT_EQ(WhyNotWith([](auto* images) { (*images)[1].weights.state.pop_back(); }),
            PathOf(4, "shard-1") +
                ": the range from element 8 on has 1 vector of optimizer state, the job's "
                "optimizer 2");
  EXPECT_EQ(WhyNotWith([](auto* images) {
              (*images)[0].applied = {4, 4};
            }),
            PathOf(4, "shard-0") +
                ": the range from element 0 on has the pushes of 2 nodes, the job has 1");
  EXPECT_EQ(WhyNotWith([](auto* images) { (*images)[0].applied = {5}; }), "");
  EXPECT_THAT(
      WhyNotWith([](auto* images) { (*images)[0].mean_square = (*images)[0].weights.weights; }),
      EndsWith("has a mean square of gradients, which the job does not keep"));
}

TEST_F(ObjectsOf, ANodeThatTheJobHasNotOrOfAnotherStepAreRefused) {
  const std::vector<ChunkImage> images = MadeImages(record_, 4);
  const auto node = [](uint32_t number, uint64_t clock, uint32_t elements) {
    return NodeImage{.node = number,
                     .clock = clock,
                     .chunks = {{.begin = 0, .elements = elements, .push = PushImage{}}}};
  };
  EXPECT_EQ(WhyNot(record_, images, {node(0, 4, 30)}), "");
  EXPECT_EQ(WhyNot(record_, images, {node(1, 4, 30)}),
            PathOf(4, "node-1") + ": the job has no node 1");
  EXPECT_EQ(WhyNot(record_, images, {node(0, 3, 30)}),
            PathOf(4, "node-0") + ": has made 3 steps, the checkpoint is of 4");
  EXPECT_EQ(WhyNot(record_, images, {node(0, 4, 29)}),
            PathOf(4, "node-0") + ": elements 29 to 29 are in no object");
  NodeImage norms = node(0, 4, 1);
  norms.chunks[0].norms = WeightImage{.weights = FloatBytes({1})};
  EXPECT_EQ(WhyNot(record_, images, {norms}),
            PathOf(4, "node-0") +
                ": the range from element 0 on has weights that nodes update, which the job does "
                "not keep");
}

TEST_F(ObjectsOf, StatesOfRanksAreThoseOfTheJobsRanksAtItsStep) {
  const auto why_not = [this](const std::string& part, const RankImage& image) {
    Manifest manifest = *PutCheckpoint(store(), record_, 4, MadeImages(record_, 4));
    const std::string content = Joined(MakeRankImageFile(image));
    const absl::Span<const char> piece(content);
    Put(4, part, content);
    manifest.objects.push_back(FactsOf(Checkpoints::ObjectName(4, part), {&piece, 1}));
    return WhyNot(manifest);
  };
  EXPECT_EQ(why_not("rank-0-7.0", {.rank = 0, .clock = 4, .state = OwnBytes("a")}), "");
  EXPECT_EQ(why_not("rank-0-7.0", {.rank = 0, .clock = 3}),
            PathOf(4, "rank-0-7.0") + ": the state is of step 3, the checkpoint of step 4");
  EXPECT_EQ(why_not("rank-0-7.0", {.rank = 1, .clock = 4}),
            PathOf(4, "rank-0-7.0") + ": is the state of rank 1");
  EXPECT_EQ(why_not("rank-99-7.0", {.rank = 99, .clock = 4}),
            PathOf(4, "rank-99-7.0") + ": the job has no rank 99");
}

TEST_F(ObjectsOf, OneWithAnObjectOfAnotherNameAreRefused) {
  Manifest manifest = *PutCheckpoint(store(), record_, 4, MadeImages(record_, 4));
  const std::string text = "blob";
  const absl::Span<const char> piece(text);
  for (const auto& [part, why] :
       {std::pair("seat-0", ": this version knows no object of that name"),
        std::pair("rank-0", ": is no state of a rank")}) {
    Put(4, part, text);
    manifest.objects.push_back(FactsOf(Checkpoints::ObjectName(4, part), {&piece, 1}));
    EXPECT_EQ(WhyNot(manifest), PathOf(4, part) + why);
    manifest.objects.pop_back();
  }
}

TEST_F(ObjectsOf, ASmallModelAreWholeInChunksThatNoJobMayAskFor) {
  proto::JobRecord record = record_;
  record.mutable_job()->set_chunk_elements(record.placement().chunk_elements());
  EXPECT_EQ(WhyNot(record, MadeImages(record, 4)), "");
  record.mutable_job()->set_chunk_elements(record.placement().chunk_elements() + 1);
  EXPECT_THAT(WhyNot(record, MadeImages(record, 4)),
              HasSubstr("its record: chunk_elements: 9 is not in 256 to "));
}

TEST_F(ObjectsOf, OneWithoutARecordOfAJobAreRefused) {
  Manifest manifest = *PutCheckpoint(store(), record_, 4, MadeImages(record_, 4));
  const auto why_not = [&](const std::string& record) {
    manifest.record = record;
    return WhyNot(manifest);
  };
  const std::string path = PathOf(4, "manifest.json");
  EXPECT_EQ(why_not("\x01"), path + ": its record is no job's record");
  EXPECT_EQ(why_not(""), path + ": it is of job 7, its record of job 0");
  proto::JobRecord record = record_;
  record.mutable_layout()->mutable_segments(1)->set_offset(11);
  EXPECT_THAT(why_not(record.SerializeAsString()), StartsWith(path + ": its record: "));
  record = record_;
  record.mutable_job()->clear_optimizer();
  EXPECT_THAT(why_not(record.SerializeAsString()), StartsWith(path + ": its record: "));
}

TEST(RangeCover, TakesRangesInAnyOrderThatCoverTheArenaOnce) {
  RangeCover cover(10);
  EXPECT_TRUE(cover.Add(8, 2, "b").ok());
  EXPECT_TRUE(cover.Add(0, 5, "a").ok());
  EXPECT_EQ(cover.ExpectAll("all").message(), "all: elements 5 to 7 are in no object");
  EXPECT_TRUE(cover.Add(5, 3, "b").ok());
  EXPECT_TRUE(cover.ExpectAll("all").ok());
}

TEST(RangeCover, NamesTheObjectsThatHaveOneElementTwice) {
  RangeCover cover(10);
  ASSERT_TRUE(cover.Add(3, 3, "a").ok());
  EXPECT_EQ(cover.Add(5, 2, "b").message(), "b: has element 5, which a has, too");
  EXPECT_EQ(cover.Add(0, 4, "c").message(), "c: has element 3, which a has, too");
  EXPECT_EQ(cover.Add(3, 3, "d").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(cover.ExpectAll("all").message(), "all: elements 0 to 2 are in no object");
}

TEST(RangeCover, RefusesWhatIsBeyondTheArena) {
  RangeCover cover(10);
  EXPECT_EQ(cover.Add(8, 3, "a").message(), "a: 3 elements from element 8 on, but the job has 10");
  EXPECT_FALSE(cover.Add(UINT64_MAX, 2, "a").ok());
  EXPECT_FALSE(cover.Add(1, UINT64_MAX, "a").ok());
  EXPECT_FALSE(cover.Add(1, 0, "a").ok());
  EXPECT_EQ(cover.ExpectAll("all").message(), "all: elements 0 to 9 are in no object");
}

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
    NamedTensors named(record, with_optimizer);
    status_ = ReadObjects(store(), manifest, record, named.MakeTaker());
    if (!status_.ok()) return {};
    const auto tensors = named.Tensors();
    status_ = tensors.status();
    if (!status_.ok()) return {};
    std::map<std::string, Values> values;
    shapes_.clear();
    for (const TensorToSave& tensor : *tensors) {
      values[tensor.name] = {tensor.values.begin(), tensor.values.end()};
      shapes_[tensor.name] = tensor.shape;
    }
    notes_ = named.notes();
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
  NamedTensors named(record, true);
  const ObjectTaker taker = named.MakeTaker();
  for (const ChunkImage& image : MadeImages(made, 4)) taker.on_chunk(image);
  const auto tensors = named.Tensors();
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

// As in one process that had left the parameter alone. 1.weight are the elements 20 to 27.
TEST_F(Named, AStepIsWithoutTheUpdatesThatTheTensorHasMissed) {
  const proto::JobRecord record = MadeRecord("optimizer { adam {} }");
  NamedTensors named(record, true);
  const ObjectTaker taker = named.MakeTaker();
  for (ChunkImage image : MadeImages(record, 4)) {
    std::vector<float> missed(image.weights.weights.float_count());
    for (size_t i = 0; i < missed.size(); ++i) {
      if (image.begin + i >= 20 && image.begin + i < 28) missed[i] = 3;
    }
    image.weights.missed = FloatBytes(std::move(missed));
    taker.on_chunk(image);
  }
  const auto tensors = named.Tensors();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  std::map<std::string, float> steps;
  for (const TensorToSave& tensor : *tensors) {
    if (tensor.shape.empty()) steps[tensor.name] = tensor.values[0];
  }
  EXPECT_EQ(steps["optimizer/step/0.weight"], 4);
  EXPECT_EQ(steps["optimizer/step/1.weight"], 1);
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
  NamedTensors named(record, true);
  const ObjectTaker taker = named.MakeTaker();
  std::vector<ChunkImage> images = MadeImages(record, 4);
  images[1].weights.updates = 3;  // elements 8 to 15
  for (const ChunkImage& image : images) taker.on_chunk(image);
  const auto tensors = named.Tensors();
  std::map<std::string, float> steps;
  for (const TensorToSave& tensor : *tensors) {
    if (tensor.shape.empty()) steps[tensor.name] = tensor.values[0];
  }
  EXPECT_EQ(steps["optimizer/step/0.weight"], 3);
  EXPECT_EQ(steps["optimizer/step/0.bias"], 3);
  EXPECT_EQ(steps["optimizer/step/1.weight"], 4);
  EXPECT_THAT(named.notes(),
              ElementsAre("parts of the model have had different counts of updates: step is the "
                          "least"));
}

// A safetensors file of 24 bytes of values; `type` is that of the parameter.
std::string StateOfTorch(const std::string& type, const std::string& format) {
  const std::string header =
      R"({"__metadata__":{"format":")" + format + R"(","state":"{}"},)" +
      R"("state/own/rng/torch":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)" +
      R"("state/own/buffers/running":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)" +
      R"("state/own/buffers/count":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)" +
      R"("state/shared/params/0.weight":{"dtype":")" + type +
      R"(","shape":[2,1],"data_offsets":[16,24]}})";
  const uint64_t length = header.size();
  const float values[] = {0, 0.5f, 0, 0, 1, 2};
  std::string state(reinterpret_cast<const char*>(&length), sizeof length);
  state += header;
  state.append(reinterpret_cast<const char*>(values), sizeof values);
  return state;
}

TEST_F(Named, WeightsThatTheProgramHasAreInTheStateOfRank0) {
  const proto::JobRecord record = MadeRecord("optimizer { mean {} }");
  NamedTensors named(record, true);
  const ObjectTaker taker = named.MakeTaker();
  taker.on_rank(
      {.rank = 0, .clock = 4, .state = OwnBytes(StateOfTorch("F32", "strata-rank-state-1"))});
  taker.on_rank({.rank = 1, .clock = 4, .state = OwnBytes("of another rank")});
  const auto tensors = named.Tensors();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "running");
  EXPECT_THAT((*tensors)[0].values, ElementsAre(0.5f));
  EXPECT_EQ((*tensors)[1].name, "0.weight");
  EXPECT_THAT((*tensors)[1].values, ElementsAre(1, 2));
  EXPECT_THAT((*tensors)[1].shape, ElementsAre(2, 1));
  EXPECT_THAT(named.notes(),
              ElementsAre("parameters and buffers are those of rank 0",
                          "the program has an optimizer of its own, whose state is not exported"));
}

TEST_F(Named, WeightsThatTheProgramAloneCanReadAreRefusedWithWhatToDo) {
  const proto::JobRecord record = MadeRecord("optimizer { mean {} }");
  Read(record, false);
  const std::string mean = "the job's optimizer is mean: its program has the weights, ";
  EXPECT_EQ(status_,
            absl::InvalidArgumentError(
                mean + "and its checkpoints have no state of its ranks: let it save them"));
  const auto refusal = [&](const std::string& state) {
    NamedTensors named(record, false);
    named.MakeTaker().on_rank({.rank = 0, .clock = 4, .state = OwnBytes(state)});
    return named.Tensors().status();
  };
  const absl::Status of_its_own = absl::InvalidArgumentError(
      mean +
      "and keeps them in a form of its own: go on from the checkpoint with --resume, and "
      "let the program save them");
  EXPECT_EQ(refusal("whatever"), of_its_own);
  EXPECT_EQ(refusal(StateOfTorch("F32", "another-state")), of_its_own);
  EXPECT_EQ(refusal(StateOfTorch("F64", "strata-rank-state-1")), of_its_own) << "it does not fit";
  EXPECT_EQ(refusal(StateOfTorch("I32", "strata-rank-state-1")),
            absl::InvalidArgumentError(
                mean + "and 0.weight is of type I32: those of F32 alone are exported"));
}

TEST_F(Named, TwoTensorsOfOneNameAreRefused) {
  proto::JobRecord record = MadeRecord("optimizer { adam {} }");
  record.mutable_layout()->mutable_segments(5)->set_name("optimizer/exp_avg/0.bias");
  EXPECT_EQ(Read(record, false).size(), 5u);
  Read(record, true);
  EXPECT_EQ(status_.message(), "two tensors are called optimizer/exp_avg/0.bias");
}

class VerifyOne : public MadeStore {
 protected:
  // Reads the oldest checkpoint, and calls `meanwhile` before each of its objects.
  Verdict Verify(const std::function<void()>& meanwhile = [] {}) {
    const auto entries = ListCheckpoints(store());
    EXPECT_TRUE(entries.ok()) << entries.status();
    const auto verdict = VerifyCheckpoint(store(), entries->front(),
                                          [&](const ObjectFacts&, uint64_t) { meanwhile(); });
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return *verdict;
  }
};

TEST_F(VerifyOne, SaysWhatIsWrongWithIt) {
  Make(2);
  EXPECT_EQ(Verify().kind, VerdictKind::kWhole);
  EXPECT_THAT(Verify().text, StartsWith("whole: 2 objects, "));
  Put(2, "shard-0", "short");
  EXPECT_EQ(Verify().kind, VerdictKind::kBroken);
  EXPECT_THAT(Verify().text, StartsWith("broken: " + PathOf(2, "shard-0") + ": 5 bytes"));
  Remove(2, "shard-0");
  EXPECT_EQ(Verify().kind, VerdictKind::kBroken);
  Remove(2, "manifest.json");
  EXPECT_EQ(Verify().kind, VerdictKind::kIncomplete);
  EXPECT_THAT(Verify().text, StartsWith("incomplete: 1 object, no manifest"));
}

TEST_F(VerifyOne, AnObjectThatGoesWhileItIsReadIsMissing) {
  Make(2);
  EXPECT_EQ(Verify([this] { std::filesystem::remove(PathOf(2, "shard-1")); }).kind,
            VerdictKind::kBroken);
}

// A running job meanwhile removes its older checkpoints, the manifest first.
TEST_F(VerifyOne, ThatIsRemovedWhileItIsReadIsNotBroken) {
  Make(2);
  Make(4);
  const auto remove = [this] {
    for (const char* part : {"manifest.json", "shard-0", "shard-1"}) {
      std::filesystem::remove(PathOf(2, part));
    }
  };
  const Verdict verdict = Verify(remove);
  EXPECT_EQ(verdict.kind, VerdictKind::kRemoved);
  EXPECT_THAT(verdict.text, StartsWith("removed while it was read: " + PathOf(2, "shard-0")));
}

TEST_F(VerifyOne, WhatIsFoundBrokenIsToldWhereItIsRemovedThen) {
  Make(2);
  Put(2, "shard-0", "short");
  const Verdict verdict = Verify([this] { std::filesystem::remove(PathOf(2, "manifest.json")); });
  EXPECT_EQ(verdict.kind, VerdictKind::kRemoved);
  EXPECT_THAT(verdict.text, HasSubstr(": 5 bytes"));
}

TEST(VerdictCounts, AreGoodWithAWholeOneAndNoBrokenOne) {
  using Kinds = std::vector<VerdictKind>;
  constexpr auto kWhole = VerdictKind::kWhole, kIncomplete = VerdictKind::kIncomplete,
                 kBroken = VerdictKind::kBroken, kRemoved = VerdictKind::kRemoved;
  struct Case {
    Kinds kinds;
    bool are_good, are_outdated;
  };
  for (const Case& one : std::vector<Case>{{{}, false, false},
                                           {{kWhole}, true, false},
                                           {{kIncomplete}, false, false},
                                           {{kRemoved}, false, true},
                                           {{kWhole, kIncomplete}, true, false},
                                           {{kRemoved, kWhole}, true, false},
                                           {{kRemoved, kIncomplete}, false, true},
                                           {{kWhole, kBroken}, false, false},
                                           {{kRemoved, kBroken}, false, false}}) {
    VerdictCounts counts;
    for (const VerdictKind kind : one.kinds) counts.Add(kind);
    EXPECT_EQ(counts.all(), one.kinds.size());
    EXPECT_EQ(counts.AreGood(), one.are_good) << testing::PrintToString(one.kinds);
    EXPECT_EQ(counts.AreOutdated(), one.are_outdated) << testing::PrintToString(one.kinds);
  }
}

class Export : public MadeStore {
 protected:
  const std::string out_ = folder_ + ".safetensors";

  void TearDown() override {
    std::filesystem::remove(out_);
    MadeStore::TearDown();
  }
  // Returns the step that was taken, or the error.
  absl::StatusOr<uint64_t> Step(std::optional<uint64_t> step = std::nullopt) {
    passed_over_.clear();
    const auto exported = ExportCheckpoint(
        store(), {.out = out_, .step = step, .on_passed_over = [this](const std::string& text) {
                    passed_over_.push_back(text);
                  }});
    if (!exported.ok()) return exported.status();
    EXPECT_EQ(ReadSafetensors(out_)->metadata.at("step"), std::to_string(exported->manifest.clock));
    return exported->manifest.clock;
  }

  std::vector<std::string> passed_over_;
};

TEST_F(Export, TakesTheNewestWholeOneAndSaysWhatItPassedOver) {
  for (const uint64_t step : {2, 4, 6, 8}) Make(step);
  Remove(4, "manifest.json");
  Put(6, "shard-0", "short");
  Remove(8, "shard-1");
  EXPECT_EQ(*Step(), 2u);
  ASSERT_EQ(passed_over_.size(), 3u);
  EXPECT_THAT(passed_over_[0], HasSubstr("step 8 is broken: shard-1: is not there"));
  EXPECT_THAT(passed_over_[1],
              StartsWith("step 6 passed over: " + PathOf(6, "shard-0") + ": 5 bytes"));
  EXPECT_THAT(passed_over_[2], HasSubstr("step 4 is incomplete: 2 objects of 2, no manifest"));
}

TEST_F(Export, TakesNoOtherThanTheOneThatIsAskedFor) {
  for (const uint64_t step : {2, 4, 6}) Make(step);
  EXPECT_EQ(*Step(4), 4u);
  Put(4, "shard-0", "short");
  std::filesystem::remove(out_);
  EXPECT_EQ(Step(4).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Step(3).status().code(), absl::StatusCode::kNotFound);
  Remove(4, "manifest.json");
  EXPECT_EQ(Step(4).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_THAT(passed_over_, testing::IsEmpty());
}

TEST_F(Export, WithoutAWholeOneWritesNothing) {
  Make(2);
  Remove(2, "shard-0");
  const absl::Status status = Step().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), store().where() + ": no whole checkpoint");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(Export, RefusesAFileThatCannotBeWrittenBeforeItReads) {
  Make(2);
  for (const std::string& out : {folder_, folder_ + "/missing/o.safetensors", std::string()}) {
    bool was_read = false;
    const auto exported = ExportCheckpoint(
        store(),
        {.out = out, .on_object = [&](const auto&, const auto&, uint64_t) { was_read = true; }});
    EXPECT_EQ(exported.status().code(), absl::StatusCode::kInvalidArgument) << out;
    EXPECT_FALSE(was_read) << out;
  }
}

TEST_F(Export, AsksForNoMoreMemoryThanTheObjectsHave) {
  Manifest manifest = Make(4);
  proto::JobRecord record = MadeRecord("optimizer { adam {} }");
  proto::Segment* last = record.mutable_layout()->mutable_segments(5);
  last->set_shape(0, uint64_t{1} << 60);
  record.mutable_layout()->set_elements(last->offset() + last->shape(0));
  manifest.record = record.SerializeAsString();
  ASSERT_TRUE(store().Delete(Checkpoints::ObjectName(4, "manifest.json")).ok());
  ASSERT_TRUE(Checkpoints(store()).Complete(manifest).ok());
  const absl::Status status = Step(4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(" bytes, too few for the 1152921504606847005 elements of the job"));
}

TEST_F(Export, WritesTheFileAsAFinishedJobDoes) {
  Make(4);
  ASSERT_TRUE(ExportCheckpoint(store(), {.out = out_, .optimizer = true}).ok());
  const auto file = ReadSafetensors(out_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->metadata,
              ElementsAre(testing::Pair("format", "pt"), testing::Pair("job", "made"),
                          testing::Pair("optimizer", "adam"), testing::Pair("step", "4")));
  EXPECT_EQ(file->tensors.size(), 5u + 4 * 3);
}

}  // namespace

}  // namespace strata::cli
