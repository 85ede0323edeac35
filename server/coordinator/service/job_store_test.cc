#include "server/coordinator/service/job_store.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

proto::StoredJob Job(uint32_t id, const std::string& name) {
  proto::StoredJob job;
  job.mutable_record()->set_job_id(id);
  job.mutable_status()->set_job_id(id);
  job.mutable_status()->set_name(name);
  job.mutable_status()->set_state(proto::QUEUED);
  return job;
}

class JobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "/store-",
                              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
  }
  std::unique_ptr<JobStore> Open() {
    absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(directory_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::string Database() const { return directory_ + "/coordinator.sqlite"; }
  void Run(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(Database().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  // The content of the folder's file; empty if it does not exist.
  std::string Content(const std::string& name = JobStore::kFile) const {
    std::ifstream file(directory_ + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // Makes the state of schema 1 as its first coordinators left it: without the tables that were
  // added while the version was 1.
  void MakeSchema1(const std::vector<proto::StoredJob>& jobs) const {
    std::filesystem::create_directories(directory_);
    Run("PRAGMA journal_mode = WAL;"
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL,"
        " reason TEXT NOT NULL, data BLOB NOT NULL);"
        "INSERT INTO meta VALUES ('cluster_id', '0123456789abcdef');"
        "INSERT INTO meta VALUES ('next_job_id', '9');"
        "PRAGMA user_version = 1;");
    for (const proto::StoredJob& job : jobs) {
      Run(absl::StrCat("INSERT INTO jobs VALUES (", job.record().job_id(), ", 'n', 's', '', x'",
                       absl::BytesToHexString(job.SerializeAsString()), "')"));
    }
  }
  absl::Status Refusal(const std::string& version) const {
    return absl::FailedPreconditionError(absl::StrCat(
        Database(), ": its schema has version ", version, ", this strata knows versions 1 to 2"));
  }

  std::string directory_;
};

TEST_F(JobStoreTest, ANewStoreIsEmptyAndHasAnId) {
  const auto store = Open();
  EXPECT_EQ(store->cluster_id().size(), 16);
  EXPECT_EQ(store->next_job_id(), 1);
  EXPECT_TRUE(store->Load()->empty());
}

TEST_F(JobStoreTest, TheDaemonsThatAreOutOfServiceAreThereAfterARestart) {
  {
    const auto store = Open();
    EXPECT_TRUE(store->LoadDraining()->empty());
    ASSERT_TRUE(store->SaveDraining({"s1", "w 2"}).ok());
    ASSERT_TRUE(store->SaveDraining({"s3", "w 2"}).ok());
  }
  EXPECT_THAT(*Open()->LoadDraining(), ::testing::ElementsAre("s3", "w 2"));
  ASSERT_TRUE(Open()->SaveDraining({}).ok());
  EXPECT_TRUE(Open()->LoadDraining()->empty());
}

TEST_F(JobStoreTest, WhatWasSavedIsThereAfterARestart) {
  std::string cluster_id;
  {
    const auto store = Open();
    cluster_id = store->cluster_id();
    ASSERT_TRUE(store->Save(Job(1, "a")).ok());
    ASSERT_TRUE(store->Save(Job(2, "b")).ok());
    proto::StoredJob changed = Job(1, "a");
    changed.mutable_status()->set_reason("because");
    changed.set_training(true);
    ASSERT_TRUE(store->Save(changed).ok());
  }
  const auto store = Open();
  EXPECT_EQ(store->cluster_id(), cluster_id);
  EXPECT_EQ(store->next_job_id(), 3);
  const std::vector<proto::StoredJob> jobs = *store->Load();
  ASSERT_EQ(jobs.size(), 2);
  EXPECT_EQ(jobs[0].status().reason(), "because");
  EXPECT_TRUE(jobs[0].training());
  EXPECT_EQ(jobs[1].status().name(), "b");
}

TEST_F(JobStoreTest, RegistrationsAreThereAfterARestartTheNewestLastUpToTheirNumber) {
  {
    const auto store = Open();
    EXPECT_TRUE(store->LoadSeen()->empty());
    const uint64_t large = ~uint64_t{0};
    ASSERT_TRUE(store->SaveSeen({{large, 1}, {7, 1}}).ok());
    ASSERT_TRUE(store->SaveSeen({{large, 2}}).ok());
  }
  {
    const auto store = Open();
    const std::vector<SeenRegistrations::Entry> seen = *store->LoadSeen();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].daemon_id, 7u);
    EXPECT_EQ(seen[1].daemon_id, ~uint64_t{0});
    EXPECT_EQ(seen[1].attempt, 2u);
    std::vector<SeenRegistrations::Entry> many;
    for (uint64_t id = 1; id < SeenRegistrations::kMax; ++id) many.push_back({100 + id, 1});
    ASSERT_TRUE(store->SaveSeen(many).ok());
  }
  const std::vector<SeenRegistrations::Entry> seen = *Open()->LoadSeen();
  ASSERT_EQ(seen.size(), SeenRegistrations::kMax);
  EXPECT_EQ(seen[0].daemon_id, ~uint64_t{0});
}

TEST_F(JobStoreTest, AnIdIsNeverGivenAwayTwiceEvenWhenItsJobIsRemoved) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Save(Job(7, "a")).ok());
    ASSERT_TRUE(store->Remove(JobId(7)).ok());
  }
  const auto store = Open();
  EXPECT_TRUE(store->Load()->empty());
  EXPECT_EQ(store->next_job_id(), 8);
}

TEST_F(JobStoreTest, ADirectoryInUseIsRefused) {
  const auto store = Open();
  EXPECT_EQ(JobStore::Open(directory_).status(),
            absl::UnavailableError(
                absl::StrCat(directory_, ": another coordinator uses this state directory")));
}

TEST_F(JobStoreTest, AFileThatIsNoDatabaseIsNamed) {
  std::filesystem::create_directories(directory_);
  std::ofstream(Database()) << std::string(4096, 'x');
  const absl::Status status = JobStore::Open(directory_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), absl::StrCat(Database(), ": file is not a database"));
}

TEST_F(JobStoreTest, ADatabaseOfSomethingElseIsRefusedAndStaysAsItIs) {
  std::filesystem::create_directories(directory_);
  Run("CREATE TABLE mine (a INTEGER)");
  const std::string before = Content();
  EXPECT_EQ(JobStore::Open(directory_).status(),
            absl::FailedPreconditionError(absl::StrCat(
                Database(),
                ": has a table \"mine\" and is not the state of a coordinator; name another folder "
                "with --state")));
  EXPECT_EQ(Content(), before);
}

TEST_F(JobStoreTest, TheStateOfAnOlderCoordinatorIsTakenOverWithItsJobs) {
  proto::StoredJob job = Job(3, "a");
  job.set_training(true);
  MakeSchema1({job, Job(8, "b")});
  for (int times = 0; times < 2; ++times) {
    const auto store = Open();
    EXPECT_EQ(store->cluster_id(), "0123456789abcdef");
    EXPECT_EQ(store->next_job_id(), 9);
    const std::vector<proto::StoredJob> jobs = *store->Load();
    ASSERT_EQ(jobs.size(), 2);
    EXPECT_EQ(jobs[0].SerializeAsString(), job.SerializeAsString());
    EXPECT_EQ(jobs[0].protocol_version(), 0u) << "on the oldest, as all jobs of then";
    EXPECT_EQ(store->LoadSeen()->size(), times);
    EXPECT_EQ(store->LoadDraining()->size(), times);
    ASSERT_TRUE(store->SaveSeen({{7, 1}}).ok());
    ASSERT_TRUE(store->SaveDraining({"s1"}).ok());
  }
}

TEST_F(JobStoreTest, WhatAnOlderCoordinatorKeptInTablesOfItsOwnStaysThere) {
  MakeSchema1({});
  Run("CREATE TABLE draining (name TEXT PRIMARY KEY) WITHOUT ROWID;"
      "INSERT INTO draining VALUES ('s1');");
  EXPECT_THAT(*Open()->LoadDraining(), ::testing::ElementsAre("s1"));
}

TEST_F(JobStoreTest, AStateHasANumberThatOlderCoordinatorsRefuse) {
  const auto number = [&] {
    sqlite3* database = nullptr;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_open(Database().c_str(), &database), SQLITE_OK);
    sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &statement, nullptr);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const int version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return version;
  };
  Open();
  EXPECT_EQ(number(), 2) << "a new one";
  std::filesystem::remove_all(directory_);
  MakeSchema1({Job(1, "a")});
  Open();
  EXPECT_EQ(number(), 2) << "one of schema 1";
}

TEST_F(JobStoreTest, ANewerVersionsStateIsRefusedAndStaysAsItIs) {
  ASSERT_TRUE(Open()->Save(Job(1, "a")).ok());
  for (const std::string version : {"3", "999", "-1"}) {
    for (const std::string journal : {"WAL", "DELETE"}) {
      Run(absl::StrCat("PRAGMA journal_mode = ", journal, "; PRAGMA user_version = ", version));
      const std::string before = Content();
      EXPECT_EQ(JobStore::Open(directory_).status(), Refusal(version));
      EXPECT_EQ(Content(), before) << version << ", " << journal;
    }
  }
}

// As a killed coordinator leaves it: SQLite would move the log into the file.
TEST_F(JobStoreTest, ANewerVersionsStateKeepsItsLogOfWrites) {
  ASSERT_TRUE(Open()->Save(Job(1, "a")).ok());
  const std::string log = absl::StrCat(JobStore::kFile, "-wal");
  {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(Database().c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, "PRAGMA user_version = 3", nullptr, nullptr, nullptr),
              SQLITE_OK);
    const std::string killed = directory_ + "-killed";
    std::filesystem::remove_all(killed);
    std::filesystem::copy(directory_, killed);
    sqlite3_close(database);
    std::filesystem::remove_all(directory_);
    std::filesystem::rename(killed, directory_);
  }
  const std::string before = Content();
  const std::string log_before = Content(log);
  ASSERT_FALSE(log_before.empty());
  EXPECT_EQ(JobStore::Open(directory_).status(), Refusal("3"));
  EXPECT_EQ(Content(), before);
  EXPECT_EQ(Content(log), log_before);
}

TEST_F(JobStoreTest, ADamagedDatabaseIsNamed) {
  {
    const auto store = Open();
    for (uint32_t id = 1; id <= 200; ++id) {
      ASSERT_TRUE(store->Save(Job(id, std::string(100, 'n'))).ok());
    }
  }
  {
    std::fstream file(Database(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(8192, '\x5a');
  }
  const absl::Status status = JobStore::Open(directory_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(Database()));
}

TEST_F(JobStoreTest, AFileSystemWithoutWalIsRefused) {
  // Simulates such a file system: no shared memory, so SQLite keeps the journal mode and reports no
  // error.
  sqlite3_vfs* usual = sqlite3_vfs_find(nullptr);
  ASSERT_EQ(sqlite3_vfs_register(sqlite3_vfs_find("unix-none"), /*makeDflt=*/1), SQLITE_OK);
  const absl::Status status = JobStore::Open(directory_).status();
  sqlite3_vfs_register(usual, /*makeDflt=*/1);
  EXPECT_EQ(status, absl::InternalError(
                        absl::StrCat(Database(),
                                     ": cannot write ahead (WAL) on this file system: its journal "
                                     "mode stays \"delete\"")));
}

TEST_F(JobStoreTest, WhatItHoldsIsForThisUserAlone) {
  const auto mode = [](const std::string& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  std::filesystem::create_directories(directory_);
  // As a coordinator left it that did not set the mode.
  std::ofstream(Database()).close();
  std::filesystem::permissions(Database(), std::filesystem::perms(0644));
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
  const auto store = JobStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory_)) {
    EXPECT_EQ(mode(file.path()), 0600u) << file.path();
    ++files;
  }
  EXPECT_GE(files, 2) << "the database and the lock";
  ASSERT_TRUE(JobStore::Open(directory_ + "/new").ok());
  EXPECT_EQ(mode(directory_ + "/new"), 0700u);
}

TEST_F(JobStoreTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/file") << "x";
  const absl::Status status = JobStore::Open(directory_ + "/file/state").status();
  EXPECT_EQ(status, absl::NotFoundError(directory_ + "/file: Not a directory"));
}

}  // namespace
}  // namespace strata::server
