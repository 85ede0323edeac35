#include "cli/checkpoint/checkpoint_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/checkpoint/made_checkpoints.h"
#include "cli/checkpoint/made_store.h"
#include "cli/checkpoint/render_checkpoints.h"
#include "common/checkpoint/checkpoints.h"

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

}  // namespace
}  // namespace strata::cli
