#include "cli/checkpoint/checkpoint_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "cli/checkpoint/made_checkpoints.h"
#include "cli/checkpoint/made_store.h"
#include "common/image/image_bytes.h"
#include "common/image/rank_image_file.h"

namespace strata::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kAdam[] = "optimizer { adam {} }";

class ObjectsOf : public MadeStore {
 protected:
  // What is wrong with a checkpoint of step 4 of these images; empty: nothing is.
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
  // What is wrong once `change` has been made to the images of step 4.
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

}  // namespace
}  // namespace strata::cli
