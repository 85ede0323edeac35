#include "cli/checkpoint/export_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cli/checkpoint/made_checkpoints.h"
#include "cli/checkpoint/made_store.h"
#include "common/image/safetensors.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
