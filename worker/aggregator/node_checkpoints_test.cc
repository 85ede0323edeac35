#include "worker/aggregator/node_checkpoints.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/exchange/core/peerless_core.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Kind = NodeCuts::Kind;

namespace fs = std::filesystem;

constexpr uint32_t kElements = 4;
constexpr char kLocal[] = "consistency { lazy { staleness: 0 local_steps: 2 } }";
constexpr absl::Duration kLong = absl::Seconds(20);

Bytes Floats(float first) {
  auto floats = std::make_shared<std::vector<float>>(kElements, first);
  return Bytes(floats, reinterpret_cast<const std::byte*>(floats->data()),
               floats->size() * sizeof(float));
}
std::vector<float> ToFloats(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

WeightImage Weights(float first) { return {.version = 3, .weights = Floats(first)}; }

Cut<NodeChunkImage> OwnCut(uint64_t clock, float first) {
  NodeChunkImage image{.begin = 0, .elements = kElements};
  image.local = {.clock = 2 * clock, .last_samples = 8, .own = Weights(first), .start = Floats(1)};
  return {.clock = clock, .images = {image}};
}
Cut<ChunkImage> SliceCut(uint64_t clock, uint64_t begin, float first) {
  return {.clock = clock, .images = {{.begin = begin, .clock = clock, .weights = Weights(first)}}};
}

// Has cuts, and records which ones are released.
class CuttingCore final : public PeerlessCore {
 public:
  NodeCuts cuts;
  std::vector<std::pair<Kind, uint64_t>> let_go;

  absl::Status Submit(ChunkId, absl::Time, CoreActions*) override { return absl::OkStatus(); }
  NodeCuts TakeCuts() override { return std::exchange(cuts, {}); }
  void ReleaseCut(Kind kind, uint64_t clock) override { let_go.emplace_back(kind, clock); }
};

class NodeCheckpointsTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  proto::JobRecord Record(const std::string& job) const {
    proto::JobRecord record;
    record.set_job_id(7);
    record.set_token(1007);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("optimizer { sgd {} } ", job), record.mutable_job()));
    record.mutable_job()->mutable_checkpoint()->set_dir(folder_);
    record.mutable_job()->mutable_checkpoint()->set_every_steps(2);
    FillDefaults(record.mutable_job());
    return record;
  }
  StoreOpener Opener() {
    return [](const std::string& dir) -> absl::StatusOr<std::unique_ptr<Store>> {
      return FileStore::Open(dir);
    };
  }
  // Returns the reports on a node's cuts once all of them are written.
  std::vector<proto::CheckpointPart> Write(const proto::JobRecord& record, uint32_t node,
                                           NodeCuts cuts) {
    NodeCheckpoints checkpoints(record, node, Opener());
    core_.cuts = std::move(cuts);
    checkpoints.Take(&core_);
    checkpoints.Finish(kLong);
    checkpoints.Take(&core_);
    return checkpoints.TakeParts();
  }
  // The record of a job that resumes from these parts, of nodes in order.
  proto::JobRecord GoesOnFrom(proto::JobRecord record, uint64_t clock,
                              const std::vector<proto::CheckpointPart>& parts) const {
    proto::Resume* resume = record.mutable_resume();
    resume->set_dir(folder_);
    resume->set_clock(clock);
    resume->set_step(clock * StepsPerClock(record.job()));
    for (const proto::CheckpointPart& part : parts) {
      if (part.has_node()) resume->add_object_of_node(resume->objects_size());
      *resume->add_objects() = part.object();
    }
    return record;
  }
  std::string PathOf(const proto::CheckpointPart& part) const {
    return absl::StrCat(folder_, "/", part.object().name());
  }
  // Expects damage that names the object.
  static void ExpectDamage(const absl::Status& status, const std::string& path,
                           const std::string& why) {
    EXPECT_TRUE(IsDamage(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
    EXPECT_THAT(status.message(), HasSubstr(why));
  }

  const std::string folder_ =
      (fs::path(testing::TempDir()) / "node_checkpoints").lexically_normal();
  CuttingCore core_;
};

TEST_F(NodeCheckpointsTest, WhatANodeKeepsIsWrittenLetGoOfAndReadBack) {
  const proto::JobRecord record = Record(kLocal);
  NodeCuts cuts;
  cuts.own = {OwnCut(2, 5), OwnCut(4, 6)};
  const std::vector<proto::CheckpointPart> parts = Write(record, 1, std::move(cuts));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].node(), 1u);
  EXPECT_EQ(parts[1].clock(), 4u);
  EXPECT_EQ(parts[1].job_id(), 7u);
  EXPECT_EQ(parts[1].token(), 1007u);
  EXPECT_EQ(parts[1].object().name(), Checkpoints::ObjectName(4, "node-1-7.0"));
  EXPECT_THAT(core_.let_go, ElementsAre(Pair(Kind::kOwn, 2), Pair(Kind::kOwn, 4)));

  proto::JobRecord goes_on = GoesOnFrom(record, 4, {parts[1]});
  goes_on.mutable_resume()->clear_object_of_node();
  for (const uint32_t object : {0, 0}) goes_on.mutable_resume()->add_object_of_node(object);
  const auto resume = LoadNodeResume(goes_on, 1, Opener());
  ASSERT_TRUE(resume.ok()) << resume.status();
  ASSERT_NE(*resume, nullptr);
  ASSERT_EQ((*resume)->own.size(), 1u);
  const NodeChunkImage& image = (*resume)->own[0];
  ASSERT_TRUE(image.local.has_value());
  EXPECT_EQ(image.elements, kElements);
  EXPECT_EQ(image.local->last_samples, 8u);
  EXPECT_EQ(image.local->own.version, 3u);
  EXPECT_EQ(ToFloats(image.local->own.weights), std::vector<float>(kElements, 6));
  EXPECT_EQ(ToFloats(image.local->start), std::vector<float>(kElements, 1));
  EXPECT_TRUE((*resume)->slices.empty());
}

TEST_F(NodeCheckpointsTest, SlicesOfARingAreReadByAllNodesInTheOrderOfTheirRanges) {
  const proto::JobRecord record = Record("exchange: RING");
  std::vector<proto::CheckpointPart> parts;
  for (const uint32_t node : {0, 1}) {
    NodeCuts cuts;
    cuts.slices = {SliceCut(2, (1 - node) * kElements, static_cast<float>(node))};
    const std::vector<proto::CheckpointPart> told = Write(record, node, std::move(cuts));
    ASSERT_EQ(told.size(), 1u);
    EXPECT_TRUE(told[0].has_shard());
    EXPECT_EQ(told[0].shard(), node);
    parts.push_back(told[0]);
  }
  EXPECT_THAT(core_.let_go, ElementsAre(Pair(Kind::kSlices, 2), Pair(Kind::kSlices, 2)));
  const auto resume = LoadNodeResume(GoesOnFrom(record, 2, parts), 5, Opener());
  ASSERT_TRUE(resume.ok()) << resume.status();
  ASSERT_EQ((*resume)->slices.size(), 2u);
  EXPECT_EQ((*resume)->slices[0].begin, 0u);
  EXPECT_EQ(ToFloats((*resume)->slices[0].weights.weights), std::vector<float>(kElements, 1));
  EXPECT_EQ((*resume)->slices[1].begin, kElements);
  EXPECT_EQ(ToFloats((*resume)->slices[1].weights.weights), std::vector<float>(kElements, 0));
}

TEST_F(NodeCheckpointsTest, ACutWithAProblemIsReportedAndKept) {
  NodeCuts cuts;
  cuts.own = {{.clock = 2, .problem = "the store is slower than steps are"}};
  const std::vector<proto::CheckpointPart> parts = Write(Record(kLocal), 1, std::move(cuts));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].error(), "the store is slower than steps are");
  EXPECT_FALSE(parts[0].has_object());
  EXPECT_TRUE(core_.let_go.empty());
}

TEST_F(NodeCheckpointsTest, NothingIsReadWhereNodesKeepNothing) {
  const StoreOpener none = [](const std::string&) -> absl::StatusOr<std::unique_ptr<Store>> {
    return absl::UnavailableError("nobody asks");
  };
  const proto::JobRecord plain = Record("consistency { sync {} }");
  EXPECT_FALSE(NodesWriteCheckpoints(plain.job()));
  EXPECT_TRUE(NodesWriteCheckpoints(Record(kLocal).job()));
  EXPECT_TRUE(NodesWriteCheckpoints(Record("exchange: RING").job()));
  EXPECT_EQ(*LoadNodeResume(GoesOnFrom(plain, 2, {}), 0, none), nullptr);
  EXPECT_EQ(*LoadNodeResume(Record(kLocal), 0, none), nullptr) << "it begins";
  EXPECT_EQ(LoadNodeResume(GoesOnFrom(Record(kLocal), 2, {}), 0, none).status(),
            absl::UnavailableError("nobody asks"));
}

TEST_F(NodeCheckpointsTest, WhatIsAnotherNodesOrAnotherClocksOrNotThereIsDamageThatIsNamed) {
  const proto::JobRecord record = Record(kLocal);
  NodeCuts cuts;
  cuts.own = {OwnCut(4, 5)};
  const proto::CheckpointPart part = Write(record, 0, std::move(cuts)).at(0);
  const proto::JobRecord goes_on = GoesOnFrom(record, 4, {part});
  ASSERT_TRUE(LoadNodeResume(goes_on, 0, Opener()).ok());

  // No other checkpoint of the job would be usable, either.
  const absl::Status other = LoadNodeResume(goes_on, 1, Opener()).status();
  EXPECT_FALSE(IsDamage(other)) << other;
  EXPECT_THAT(other.message(), HasSubstr("the state of 1 nodes, not of node 1"));
  ExpectDamage(LoadNodeResume(GoesOnFrom(record, 4, {part, part}), 1, Opener()).status(),
               PathOf(part), "is of node 0, not 1");
  ExpectDamage(LoadNodeResume(GoesOnFrom(record, 6, {part}), 0, Opener()).status(), PathOf(part),
               "is of step 8, not 12");
  proto::JobRecord beyond = goes_on;
  beyond.mutable_resume()->set_object_of_node(0, 3);
  ExpectDamage(LoadNodeResume(beyond, 0, Opener()).status(), "", "object 3 of the checkpoint's 1");

  fs::remove(PathOf(part));
  ExpectDamage(LoadNodeResume(goes_on, 0, Opener()).status(), PathOf(part), "");
}

TEST_F(NodeCheckpointsTest, AByteThatIsAnotherOneIsDamageThatIsNamed) {
  const proto::JobRecord record = Record(kLocal);
  NodeCuts cuts;
  cuts.own = {OwnCut(4, 5)};
  const proto::CheckpointPart part = Write(record, 0, std::move(cuts)).at(0);
  {
    std::fstream file(PathOf(part), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x01');
  }
  ExpectDamage(LoadNodeResume(GoesOnFrom(record, 4, {part}), 0, Opener()).status(), PathOf(part),
               "checksum");
  fs::resize_file(PathOf(part), part.object().bytes() - 1);
  ExpectDamage(LoadNodeResume(GoesOnFrom(record, 4, {part}), 0, Opener()).status(), PathOf(part),
               "bytes, its manifest says");
}

TEST_F(NodeCheckpointsTest, ASliceOfAnotherClockIsDamageThatIsNamed) {
  const proto::JobRecord record = Record("exchange: RING");
  NodeCuts cuts;
  cuts.slices = {SliceCut(2, 0, 1)};
  const proto::CheckpointPart part = Write(record, 0, std::move(cuts)).at(0);
  ExpectDamage(LoadNodeResume(GoesOnFrom(record, 4, {part}), 0, Opener()).status(), PathOf(part),
               "is of clock 2, not 4");
}

}  // namespace
}  // namespace strata::worker
