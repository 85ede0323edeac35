#include "server/coordinator/jobs/checkpoint_work.h"

#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/testing/faulty_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr uint64_t kCluster = 5;

absl::StatusOr<std::unique_ptr<Store>> OpenFiles(const std::string& dir) {
  return FileStore::Open(dir);
}

class CheckpointWorkTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(root_); }
  std::string Dir(const std::string& name) const { return root_ + "/" + name; }

  // A checkpoint of one object, whose manifest is not written yet.
  CheckpointToKeep Object(const std::string& dir, uint64_t clock, uint32_t job = 1,
                          uint64_t cluster = kCluster) {
    CheckpointToKeep checkpoint{.dir = Dir(dir), .keep = 10};
    const std::string text = "images";
    const absl::Span<const char> piece(text);
    Manifest& manifest = checkpoint.manifest;
    manifest.objects = {FactsOf(Checkpoints::ObjectName(clock, "shard-0-1.0"), {&piece, 1})};
    EXPECT_TRUE((*OpenFiles(Dir(dir)))->Put(manifest.objects[0].name, {&piece, 1}).ok());
    manifest.job = job;
    manifest.job_name = "mnist";
    manifest.clock = clock;
    manifest.written = absl::FromUnixSeconds(7);
    proto::JobRecord record;
    record.set_job_id(job);
    record.set_cluster(cluster);
    manifest.record = record.SerializeAsString();
    return checkpoint;
  }
  absl::Status Keep(const CheckpointToKeep& checkpoint) {
    return KeepCheckpoint(checkpoint, OpenFiles, &deleting_);
  }
  void Write(const std::string& dir, uint64_t clock, uint32_t job = 1,
             uint64_t cluster = kCluster) {
    ASSERT_EQ(Keep(Object(dir, clock, job, cluster)), absl::OkStatus());
  }
  absl::StatusOr<CheckpointFound> Find(const std::string& own, const std::string& resume,
                                       uint64_t below = 0) {
    return FindCheckpoint({.job = 1,
                           .cluster = kCluster,
                           .own_dir = own.empty() ? "" : Dir(own),
                           .resume_dir = resume.empty() ? "" : Dir(resume),
                           .below = below},
                          OpenFiles);
  }
  std::string PathOf(const std::string& dir, uint64_t clock, const std::string& part) const {
    return Dir(dir) + "/" + Checkpoints::ObjectName(clock, part);
  }
  static void Spoil(const std::string& path) { std::ofstream(path) << "other"; }

  const std::string root_ = testing::TempDir() + "/checkpoint_work";
  absl::Status deleting_;
};

TEST_F(CheckpointWorkTest, TheNewestCompleteOneIsFoundAndNewerBrokenOnesAreNamed) {
  Write("c", 10);
  Write("c", 20);
  Write("c", 30);
  Object("c", 40);  // without its manifest
  Spoil(PathOf("c", 30, "manifest.json"));
  Spoil(PathOf("c", 10, "manifest.json"));
  const absl::StatusOr<CheckpointFound> found = Find("c", "c");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.clock, 20);
  EXPECT_EQ(found->record.cluster(), kCluster);
  EXPECT_THAT(found->passed_over, ElementsAre(HasSubstr("30/manifest.json")));
}

TEST_F(CheckpointWorkTest, AManifestThatTheStoreDoesNotGiveNowIsNotPassedOver) {
  FaultyDisk disk(1, Dir("c"));
  const StoreOpener open = [&](const std::string&) { return disk.Open(); };
  for (const uint64_t clock : {10, 20}) {
    CheckpointToKeep checkpoint = Object("c", clock);
    const std::string text = "images";
    const absl::Span<const char> piece(text);
    ASSERT_TRUE(disk.Open()->Put(checkpoint.manifest.objects[0].name, {&piece, 1}).ok());
    ASSERT_EQ(KeepCheckpoint(checkpoint, open, &deleting_), absl::OkStatus());
  }
  const CheckpointQuery query = {
      .job = 1, .cluster = kCluster, .own_dir = Dir("c"), .resume_dir = Dir("c")};
  disk.FailCalls(1, /*after=*/2);  // the list, the manifest of 10
  const absl::Status status = FindCheckpoint(query, open).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(Checkpoints::ObjectName(20, "manifest.json")));
  disk.FailCalls(1, /*after=*/1);
  EXPECT_EQ(FindCheckpoint(query, open)->manifest.clock, 20) << "an older one does not matter";
  disk.FailCalls(1, /*after=*/2);
  CheckpointQuery below = query;
  below.resume_dir = Dir("c");
  below.own_dir = "";
  below.below = 20;
  EXPECT_EQ(FindCheckpoint(below, open)->manifest.clock, 10) << "nor one that is of no use";
}

TEST_F(CheckpointWorkTest, WithNothingToGoOnFromNoneIsFound) {
  ASSERT_TRUE(Find("c", "").ok());
  EXPECT_EQ(Find("c", "")->manifest.clock, 0);
  EXPECT_EQ(Find("", "c").status(), absl::NotFoundError("no complete checkpoint in " + Dir("c")));
  Object("c", 40);
  EXPECT_EQ(Find("", "c").status(), absl::NotFoundError("no complete checkpoint in " + Dir("c") +
                                                        ": that of step 40 has no manifest"));
  Write("c", 10);
  EXPECT_EQ(Find("", "c", 10).status(),
            absl::NotFoundError("no complete checkpoint in " + Dir("c") + " of a step before 10"));
}

TEST_F(CheckpointWorkTest, AFolderOfAnotherJobIsRefusedByName) {
  Write("c", 10, /*job=*/3);
  EXPECT_EQ(Find("c", "").status(),
            absl::InvalidArgumentError("checkpoint.dir: " + Dir("c") +
                                       " has checkpoints of job 3 (mnist): go on from them with "
                                       "--resume " +
                                       Dir("c") + ", or name another folder"));
  EXPECT_TRUE(Find("c", "c").ok());
  Write("d", 10, /*job=*/1, /*cluster=*/6);
  EXPECT_THAT(Find("d", "").status().message(),
              HasSubstr("checkpoints of job 1 (mnist) of another cluster"));
  Write("e", 10, /*job=*/1);
  EXPECT_TRUE(Find("e", "").ok()) << "they are its own";
}

TEST_F(CheckpointWorkTest, AJobOfAnotherNamespaceIsNotNamed) {
  Write("c", 10, /*job=*/3);
  Write("d", 10, /*job=*/3, /*cluster=*/6);
  const auto why = [&](const std::string& dir, const NamedJobs& named) {
    const CheckpointQuery query = {
        .job = 1, .cluster = kCluster, .own_dir = Dir(dir), .named = named};
    return std::string(FindCheckpoint(query, OpenFiles).status().message());
  };
  const NamedJobs none{.all_but = false}, its{.all_but = false, .listed = {3}};
  const NamedJobs all_others{.listed = {3}};
  EXPECT_THAT(why("c", none), HasSubstr("has checkpoints of another job: go on"));
  EXPECT_THAT(why("c", all_others), HasSubstr("has checkpoints of another job: go on"));
  EXPECT_THAT(why("c", its), HasSubstr("has checkpoints of job 3 (mnist): go on"));
  EXPECT_THAT(why("d", its), HasSubstr("has checkpoints of another job: go on"));
  EXPECT_THAT(why("d", all_others), HasSubstr("job 3 (mnist) of another cluster"));
}

TEST_F(CheckpointWorkTest, DamagedOnesOfTheJobItselfAreDeleted) {
  for (const uint64_t clock : {10, 20, 30}) Write("c", clock);
  Spoil(PathOf("c", 20, "shard-0-1.0"));
  fs::remove(PathOf("c", 30, "shard-0-1.0"));
  EXPECT_EQ(Find("d", "c", 20)->manifest.clock, 10);
  EXPECT_TRUE(fs::exists(PathOf("c", 20, "manifest.json"))) << "another job's";
  EXPECT_EQ(Find("c", "c", 20)->manifest.clock, 10);
  EXPECT_FALSE(fs::exists(PathOf("c", 20, "manifest.json")));
  EXPECT_FALSE(fs::exists(PathOf("c", 30, "manifest.json")));
  Write("c", 20);  // again
}

TEST_F(CheckpointWorkTest, TornManifestsInItsOwnFolderAreNotInTheWay) {
  for (const uint64_t clock : {10, 20, 30}) Write("c", clock);
  Spoil(PathOf("c", 30, "manifest.json"));
  EXPECT_EQ(Find("d", "c")->manifest.clock, 20);
  EXPECT_TRUE(fs::exists(PathOf("c", 30, "manifest.json"))) << "another job's";
  EXPECT_EQ(Find("c", "c")->manifest.clock, 20);
  EXPECT_FALSE(fs::exists(PathOf("c", 30, "manifest.json")));
  Write("c", 30);  // again
}

TEST_F(CheckpointWorkTest, AManifestOfAnotherFormatIsLeftAlone) {
  for (const uint64_t clock : {10, 20}) Write("c", clock);
  const std::string text = R"({"format": "strata-checkpoint-9"})";
  std::ofstream(PathOf("c", 20, "manifest.json"))
      << text << absl::StrFormat("\n%016x\n", XXH3_64bits(text.data(), text.size()));
  const absl::StatusOr<CheckpointFound> found = Find("c", "c");
  EXPECT_EQ(found->manifest.clock, 10);
  EXPECT_THAT(found->passed_over, ElementsAre(HasSubstr("format is strata-checkpoint-9")));
  EXPECT_TRUE(fs::exists(PathOf("c", 20, "manifest.json")));
}

TEST_F(CheckpointWorkTest, OneThatIsWholeIsNeverDeletedWhateverServersSay) {
  Write("c", 10);
  Write("c", 20);
  const absl::Status status = Find("c", "c", 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("checkpoint of step 20 in " + Dir("c") + " is whole"));
  EXPECT_TRUE(fs::exists(PathOf("c", 20, "manifest.json")));
}

TEST_F(CheckpointWorkTest, NoManifestIsWrittenForAnObjectThatIsNotThere) {
  const CheckpointToKeep checkpoint = Object("c", 10);
  fs::remove(PathOf("c", 10, "shard-0-1.0"));
  const absl::Status status = Keep(checkpoint);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("shard-0-1.0 is not there"));
  EXPECT_FALSE(fs::exists(PathOf("c", 10, "manifest.json")));
}

TEST_F(CheckpointWorkTest, AnEqualManifestThatIsThereIsTakenForThisOne) {
  const CheckpointToKeep first = Object("c", 10);
  ASSERT_EQ(Keep(first), absl::OkStatus());
  CheckpointToKeep again = first;
  again.manifest.written += absl::Seconds(3);
  proto::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(again.manifest.record));
  record.add_view_changes()->set_number(1);
  again.manifest.record = record.SerializeAsString();
  EXPECT_EQ(Keep(again), absl::OkStatus());
  EXPECT_EQ(Find("c", "c")->manifest, first.manifest) << "the first one stays";
}

TEST_F(CheckpointWorkTest, AManifestOfOtherObjectsOrOfAnotherJobIsInTheWay) {
  Write("c", 10);
  CheckpointToKeep other = Object("c", 10);
  other.manifest.objects[0].checksum ^= 1;
  EXPECT_EQ(Keep(other).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Keep(Object("c", 10, /*job=*/2)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Keep(Object("c", 10, /*job=*/1, /*cluster=*/6)).code(),
            absl::StatusCode::kAlreadyExists);
  Spoil(PathOf("c", 10, "manifest.json"));
  EXPECT_EQ(Keep(Object("c", 10)).code(), absl::StatusCode::kAlreadyExists) << "it is torn";
}

TEST_F(CheckpointWorkTest, OneWhoseObjectsWereDeletedForALaterOneOfTheJobIsPast) {
  const CheckpointToKeep first = Object("c", 10);
  CheckpointToKeep second = Object("c", 20);
  second.keep = 1;
  ASSERT_EQ(Keep(first), absl::OkStatus());
  ASSERT_EQ(Keep(second), absl::OkStatus());
  const absl::Status past = Keep(first);
  EXPECT_EQ(past.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(past.message(), HasSubstr("that of clock 20 is complete"));
  EXPECT_FALSE(fs::exists(PathOf("c", 10, "manifest.json")));
  // An earlier checkpoint, or one of another job, is no reason.
  const CheckpointToKeep third = Object("c", 30);
  fs::remove(PathOf("c", 30, "shard-0-1.0"));
  EXPECT_EQ(Keep(third).code(), absl::StatusCode::kFailedPrecondition);
  const CheckpointToKeep fourth = Object("d", 10);
  fs::remove(PathOf("d", 10, "shard-0-1.0"));
  Write("d", 20, /*job=*/2);
  EXPECT_EQ(Keep(fourth).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointWorkTest, OlderOnesGoOnceANewerOneIsComplete) {
  Write("c", 10);
  CheckpointToKeep second = Object("c", 20);
  second.keep = 1;
  ASSERT_EQ(Keep(second), absl::OkStatus());
  EXPECT_EQ(deleting_, absl::OkStatus());
  EXPECT_FALSE(fs::exists(PathOf("c", 10, "manifest.json")));
  EXPECT_EQ(Find("c", "c")->manifest.clock, 20);
}

TEST_F(CheckpointWorkTest, TheErrorsOfAStoreAreReturned) {
  const StoreOpener open = [](const std::string&) -> absl::StatusOr<std::unique_ptr<Store>> {
    return absl::UnavailableError("503");
  };
  EXPECT_EQ(FindCheckpoint({.own_dir = "/a"}, open).status(), absl::UnavailableError("503"));
  EXPECT_EQ(FindCheckpoint({.resume_dir = "/a"}, open).status(), absl::UnavailableError("503"));
  EXPECT_EQ(KeepCheckpoint({.dir = "/a"}, open, &deleting_), absl::UnavailableError("503"));
}

}  // namespace
}  // namespace strata::server
