// `strata checkpoint` on checkpoints of two steps, complete and damaged.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/commands/made_checkpoints.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/image/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A folder with the checkpoints of the steps 10 and 20 of a job with nesterov.
class CheckpointCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = FileStore::Open(dir_);
    ASSERT_TRUE(store.ok()) << store.status();
    for (const uint64_t step : {10, 20}) {
      ASSERT_TRUE(cli::PutCheckpoint(**store, record_, step, cli::MadeImages(record_, step)).ok());
    }
  }
  std::string PathOf(uint64_t step, const std::string& part) const {
    return dir_ + "/" + Checkpoints::ObjectName(step, part);
  }
  static std::string Content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  static CommandResult Checkpoint(std::vector<std::string> words) {
    words.insert(words.begin(), "checkpoint");
    return RunStrata(words);
  }
  // The first weights of a file, and of a step.
  static std::vector<float> HeadOf(const SavedModel& file) {
    const std::vector<float>& values = file.tensors[0].values;
    return {values.begin(), values.begin() + 8};
  }
  std::vector<float> Head(uint64_t step) const {
    const auto images = cli::MadeImages(record_, step);
    const float* weights = images[0].weights.weights.floats();
    return {weights, weights + 8};
  }

  const std::string dir_ = TestDir() + "/checkpoints";
  const std::string out_ = TestDir() + "/out.safetensors";
  const proto::JobRecord record_ = cli::MadeRecord("optimizer { nesterov {} }");
};

TEST_F(CheckpointCommand, ListsVerifiesAndExportsWholeOnes) {
  const CommandResult list = Checkpoint({"list", dir_});
  EXPECT_EQ(list.status.code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("10    7    made  2027-01-15 08:00:10 UTC"));
  EXPECT_THAT(list.out, HasSubstr("20    7    made  2027-01-15 08:00:20 UTC"));
  EXPECT_EQ(json::parse(Checkpoint({"list", dir_, "--json"}).out)[1]["state"], "complete");
  const CommandResult verify = Checkpoint({"verify", dir_});
  EXPECT_EQ(verify.status.code, 0) << verify.err;
  EXPECT_THAT(verify.out, testing::StartsWith("step 10  whole: 2 objects, "));
  EXPECT_THAT(verify.out, HasSubstr("\nstep 20  whole: 2 objects, "));
  EXPECT_EQ(verify.err, "");

  const CommandResult exported = Checkpoint({"export", dir_, out_, "--optimizer"});
  EXPECT_EQ(exported.status.code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("step 20 of job 7 (made), written 2027-01-15 08:00:20 UTC\n" +
                                      out_ + ": 9 tensors, "));
  const auto file = ReadSafetensors(out_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors[0].name, "0.weight");
  EXPECT_EQ(HeadOf(*file), Head(20));
  ASSERT_EQ(Checkpoint({"export", dir_, out_, "--step", "10"}).status.code, 0);
  const auto older = ReadSafetensors(out_);
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(HeadOf(*older), Head(10));
}

TEST_F(CheckpointCommand, NamesWhatIsDamagedAndExportsTheOneBefore) {
  const std::string path = PathOf(20, "shard-1");
  const std::string whole = Content(path);
  const std::map<std::string, std::function<void()>> damages = {
      {": checksum ",
       [&] {
         std::string flipped = whole;
         flipped[whole.size() / 2] ^= 0x10;
         Write(path, flipped);
       }},
      {" bytes, its manifest says ", [&] { Write(path, whole.substr(0, whole.size() / 2)); }},
      {": No such file", [&] { std::filesystem::remove(path); }}};
  for (const auto& [why, damage] : damages) {
    damage();
    const CommandResult verify = Checkpoint({"verify", dir_});
    EXPECT_EQ(verify.status.code, 1) << why;
    EXPECT_THAT(verify.out, HasSubstr("step 10  whole: "));
    EXPECT_THAT(verify.out, HasSubstr("step 20  broken: " + path));
    EXPECT_THAT(verify.out, HasSubstr(why));
    EXPECT_EQ(verify.err, "strata: error: " + dir_ + ": 1 of 2 checkpoints is whole\n");
    EXPECT_EQ(Checkpoint({"verify", dir_, "--step", "10"}).status.code, 0);
    const CommandResult exported = Checkpoint({"export", dir_, out_});
    EXPECT_EQ(exported.status.code, 0) << exported.err;
    EXPECT_THAT(exported.out, testing::StartsWith("step 10 of job 7 (made)"));
    EXPECT_THAT(exported.err, HasSubstr("strata: warning: step 20 passed over: "));
    EXPECT_THAT(exported.err, HasSubstr("shard-1"));
    EXPECT_NE(Checkpoint({"export", dir_, out_, "--step", "20"}).status.code, 0);
    Write(path, whole);
  }
  EXPECT_EQ(Checkpoint({"verify", dir_}).status.code, 0);
  std::filesystem::remove(path);
  EXPECT_THAT(Checkpoint({"list", dir_}).out, HasSubstr("broken: shard-1: is not there\n"));
}

TEST_F(CheckpointCommand, OneWithoutAManifestIsIncomplete) {
  std::filesystem::remove(PathOf(20, "manifest.json"));
  EXPECT_THAT(Checkpoint({"list", dir_}).out,
              HasSubstr("incomplete: 2 objects of 2, no manifest\n"));
  EXPECT_EQ(Checkpoint({"verify", dir_}).status.code, 0);
  EXPECT_EQ(Checkpoint({"verify", dir_, "--step", "20"}).status.code, 1);
  std::filesystem::remove(PathOf(10, "manifest.json"));
  EXPECT_EQ(Checkpoint({"verify", dir_}).status.code, 1);
  const CommandResult exported = Checkpoint({"export", dir_, out_});
  EXPECT_EQ(exported.status.code, 2);
  EXPECT_THAT(exported.err,
              testing::EndsWith("strata: error: " + dir_ + ": no whole checkpoint\n"));
}

TEST_F(CheckpointCommand, BadInputIsOneLineAndStatus2) {
  const std::string missing = TestDir() + "/missing", empty = TestDir() + "/empty";
  std::filesystem::create_directories(empty);
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"list", missing}, missing + ": No such file or directory"},
      {{"verify", missing}, missing + ": No such file or directory"},
      {{"export", missing, out_}, missing + ": No such file or directory"},
      {{"list", empty}, empty + ": no checkpoint there"},
      {{"verify", empty}, empty + ": no checkpoint there"},
      {{"export", empty, out_}, empty + ": no checkpoint there"},
      {{"verify", dir_, "--step", "15"},
       dir_ + ": no checkpoint of step 15; there are those of 10, 20"},
      {{"export", dir_, out_, "--step", "15"},
       dir_ + ": no checkpoint of step 15; there are those of 10, 20"},
      {{"export", dir_, empty}, empty + ": a folder, not a file to write"},
      {{"list", PathOf(10, "manifest.json")}, PathOf(10, "manifest.json") + ": not a folder"}};
  for (const auto& [words, error] : cases) {
    const CommandResult result = Checkpoint(words);
    EXPECT_EQ(result.status.code, 2) << error;
    EXPECT_EQ(result.err, "strata: error: " + error + "\n");
    EXPECT_EQ(result.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(missing));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(CheckpointCommand, OneOfANewerFormatIsNamedWithBothFormats) {
  // A manifest of the next format version, with a valid checksum.
  Manifest manifest = {.job = 7, .job_name = "made", .clock = 20, .record = "r"};
  std::string text = SerializeManifest(manifest);
  text = text.substr(0, text.find("\n}") + 2);
  text.replace(text.find(kManifestFormat), sizeof(kManifestFormat) - 1, "strata-checkpoint-2");
  const absl::Span<const char> piece(text);
  Write(PathOf(20, "manifest.json"),
        absl::StrFormat("%s\n%016x\n", text, FactsOf("", {&piece, 1}).checksum));
  const std::string why = "format is strata-checkpoint-2, this version reads strata-checkpoint-1";
  EXPECT_THAT(Checkpoint({"list", dir_}).out, HasSubstr(why));
  const CommandResult verify = Checkpoint({"verify", dir_, "--step", "20"});
  EXPECT_EQ(verify.status.code, 1);
  EXPECT_THAT(verify.out, HasSubstr(why));
  const CommandResult exported = Checkpoint({"export", dir_, out_, "--step", "20"});
  EXPECT_EQ(exported.status.code, 2);
  EXPECT_THAT(exported.err, HasSubstr(why));
}

}  // namespace
}  // namespace strata::tests
