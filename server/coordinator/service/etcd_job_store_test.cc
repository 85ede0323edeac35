#include "server/coordinator/service/etcd_job_store.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"
#include "server/coordinator/service/leader_lease.h"
#include "server/coordinator/service/split_store.h"
#include "server/testing/etcd_process.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr char kContender[] = "--contender";

proto::StoredJob Job(uint32_t id, const std::string& name, size_t bytes = 0) {
  proto::StoredJob job;
  job.mutable_record()->set_job_id(id);
  job.mutable_status()->set_job_id(id);
  job.mutable_status()->set_name(name);
  job.mutable_status()->set_reason(std::string(bytes, name[0]));
  return job;
}

absl::StatusOr<std::unique_ptr<JobStore>> OpenStore(const std::shared_ptr<EtcdClient>& client,
                                                    const Leadership& leadership) {
  return OpenEtcdJobStore(client, std::make_shared<FencedWriter>(client, leadership));
}

class EtcdJobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto etcd = EtcdProcess::Start(absl::StrCat(::testing::TempDir(), "/etcd-job-store"));
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    client_ = etcd_->Client();
  }

  Leadership Lead(const std::string& cluster = "c") {
    lease_.reset();
    auto lease =
        LeaderLease::Start(client_, {.cluster = cluster, .address = "test:1", .on_deposed = {}});
    EXPECT_TRUE(lease.ok()) << lease.status();
    lease_ = *std::move(lease);
    const auto leadership = lease_->AwaitElection(kLong);
    EXPECT_TRUE(leadership.ok()) << leadership.status();
    return *leadership;
  }
  absl::StatusOr<std::unique_ptr<JobStore>> TryOpen(const std::string& cluster = "c") {
    return OpenStore(client_, Lead(cluster));
  }
  // Opens the store as another coordinator would that leads from now on.
  std::unique_ptr<JobStore> Open(const std::string& cluster = "c") {
    auto store = TryOpen(cluster);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::set<std::string> KeysOf(const std::string& cluster) {
    std::set<std::string> keys;
    const std::string prefix = EtcdKeys(cluster).prefix();
    const auto range = client_->Range(RangeOf(prefix, EtcdKeys::EndOf(prefix)));
    for (const auto& kv : range->kvs()) keys.insert(kv.key().substr(prefix.size()));
    return keys;
  }
  std::string Schema() {
    const auto range = client_->Range(RangeOf(keys_.Schema()));
    return OnlyKey(*range)->value();
  }
  void Change(const etcdserverpb::RequestOp& op) {
    etcdserverpb::TxnRequest request;
    *request.add_success() = op;
    ASSERT_TRUE(client_->Txn(request).ok());
  }

  const EtcdKeys keys_{"c"};
  std::unique_ptr<EtcdProcess> etcd_;
  std::shared_ptr<EtcdClient> client_;
  std::unique_ptr<LeaderLease> lease_;
};

TEST_F(EtcdJobStoreTest, ANewStoreIsEmptyAndHasAnId) {
  const auto store = Open();
  EXPECT_EQ(store->cluster_id().size(), 16);
  EXPECT_EQ(store->next_job_id(), 1);
  EXPECT_TRUE(store->Load()->empty());
  EXPECT_TRUE(store->LoadSeen()->empty());
}

TEST_F(EtcdJobStoreTest, WhatWasSavedIsThereForTheNextLeaderAlsoAfterARestartOfEtcd) {
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
  lease_.reset();
  etcd_->Kill();
  ASSERT_TRUE(etcd_->Restart().ok());
  const auto store = Open();
  EXPECT_EQ(store->cluster_id(), cluster_id);
  EXPECT_EQ(store->next_job_id(), 3);
  const std::vector<proto::StoredJob> jobs = *store->Load();
  ASSERT_EQ(jobs.size(), 2);
  EXPECT_EQ(jobs[0].status().reason(), "because");
  EXPECT_TRUE(jobs[0].training());
  EXPECT_EQ(jobs[1].status().name(), "b");
}

TEST_F(EtcdJobStoreTest, ManyJobsAreReadInTheOrderOfTheirIds) {
  const auto store = Open();
  for (uint32_t id = 300; id >= 1; --id) ASSERT_TRUE(store->Save(Job(id, "j")).ok());
  const std::vector<proto::StoredJob> jobs = *store->Load();
  ASSERT_EQ(jobs.size(), 300);
  for (uint32_t id = 1; id <= 300; ++id) EXPECT_EQ(jobs[id - 1].record().job_id(), id);
  EXPECT_EQ(store->next_job_id(), 301);
}

TEST_F(EtcdJobStoreTest, AnIdIsNeverGivenAwayTwiceEvenWhenItsJobIsRemoved) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Save(Job(7, "a")).ok());
    ASSERT_TRUE(store->Remove(JobId(7)).ok());
  }
  const auto store = Open();
  EXPECT_TRUE(store->Load()->empty());
  EXPECT_EQ(store->next_job_id(), 8);
}

TEST_F(EtcdJobStoreTest, ALargeJobTakesThePlaceOfASmallOneAndBack) {
  const auto store = Open();
  const std::set<std::string> empty = KeysOf("c");
  for (const size_t bytes : {size_t{10}, size_t{5} << 20, size_t{5} << 20, size_t{2} << 20,
                             size_t{10}, size_t{3} << 20}) {
    const proto::StoredJob job = Job(1, "large", bytes);
    ASSERT_TRUE(store->Save(job).ok());
    const auto jobs = store->Load();
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    ASSERT_EQ(jobs->size(), 1);
    EXPECT_EQ((*jobs)[0].SerializeAsString(), job.SerializeAsString());
    const size_t parts = bytes <= 10 ? 0 : (bytes >> 20) + 1;
    EXPECT_EQ(KeysOf("c").size(), empty.size() + 1 + parts) << "parts of before are gone";
  }
  ASSERT_TRUE(store->Remove(JobId(1)).ok());
  EXPECT_EQ(KeysOf("c"), empty);
}

TEST_F(EtcdJobStoreTest, OfALargeJobThatIsSavedHalfTheOldOneStays) {
  EtcdProxy proxy(etcd_->endpoint());
  const Leadership leadership = Lead();
  const auto store = OpenStore(
      *EtcdClient::Open({.endpoints = proxy.endpoint(), .tls = {}, .deadline = absl::Seconds(1)}),
      leadership);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Save(Job(1, "old", 2 << 20)).ok());
  const std::set<std::string> keys = KeysOf("c");
  proxy.HoldNext();
  EXPECT_EQ((*store)->Save(Job(1, "new", 5 << 20)).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(proxy.ReleaseHeld());
  EXPECT_EQ(KeysOf("c").size(), keys.size() + 1) << "one part of the new one";
  EXPECT_EQ((*Open()->Load())[0].status().name(), "old");
  const auto next = Open();
  ASSERT_TRUE(next->Save(Job(1, "new", 2 << 20)).ok());
  EXPECT_EQ(KeysOf("c").size(), keys.size()) << "nothing is left of what was not finished";
}

TEST_F(EtcdJobStoreTest, RegistrationsAreThereForTheNextLeaderTheNewestLastUpToTheirNumber) {
  const uint64_t large = ~uint64_t{0};
  {
    const auto store = Open();
    ASSERT_TRUE(store->SaveSeen({{large, 1}, {7, 1}}).ok());
    ASSERT_TRUE(store->SaveSeen({{large, 2}}).ok());
  }
  {
    const auto store = Open();
    const std::vector<SeenRegistrations::Entry> seen = *store->LoadSeen();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].daemon_id, 7u);
    EXPECT_EQ(seen[1].daemon_id, large);
    EXPECT_EQ(seen[1].attempt, 2u);
    std::vector<SeenRegistrations::Entry> many;
    for (uint64_t id = 1; id < SeenRegistrations::kMax; ++id) many.push_back({100 + id, 1});
    ASSERT_TRUE(store->SaveSeen(many).ok());
    // Until everything is rewritten.
    for (auto& entry : many) entry.attempt = 2;
    ASSERT_TRUE(store->SaveSeen(many).ok());
  }
  const std::vector<SeenRegistrations::Entry> seen = *Open()->LoadSeen();
  ASSERT_EQ(seen.size(), SeenRegistrations::kMax);
  EXPECT_EQ(seen[0].daemon_id, large);
  EXPECT_EQ(seen[1].daemon_id, 101);
  EXPECT_EQ(seen[1].attempt, 2);
}

TEST_F(EtcdJobStoreTest, TheNextLeaderKnowsWhoIsOutOfService) {
  EXPECT_TRUE(Open()->LoadDraining()->empty());
  ASSERT_TRUE(Open()->SaveDraining({"s1", "w1"}).ok());
  ASSERT_TRUE(Open()->SaveDraining({"w1"}).ok());
  EXPECT_EQ(*Open()->LoadDraining(), std::vector<std::string>{"w1"});
  Change(Put(keys_.Draining(), "\xff"));
  EXPECT_TRUE(absl::IsDataLoss(Open()->LoadDraining().status()));
}

TEST_F(EtcdJobStoreTest, ADeposedLeaderChangesNothing) {
  const auto deposed = Open();
  ASSERT_TRUE(deposed->Save(Job(1, "a")).ok());
  const auto leads = Open();
  const absl::Status refused = absl::FailedPreconditionError(
      absl::StrCat(client_->name(), ": strata/c/leader: another coordinator leads: test:1"));
  const std::set<std::string> keys = KeysOf("c");
  EXPECT_EQ(deposed->Save(Job(1, "stale")), refused);
  EXPECT_EQ(deposed->Save(Job(2, "stale")), refused);
  EXPECT_EQ(deposed->Save(Job(2, "stale", 5 << 20)), refused);
  EXPECT_EQ(deposed->Remove(JobId(1)), refused);
  EXPECT_EQ(deposed->SaveSeen({{1, 1}}), refused);
  EXPECT_EQ(deposed->SaveDraining({"s1"}), refused);
  EXPECT_EQ(KeysOf("c"), keys);
  const std::vector<proto::StoredJob> jobs = *leads->Load();
  ASSERT_EQ(jobs.size(), 1);
  EXPECT_EQ(jobs[0].status().name(), "a");
  EXPECT_TRUE(leads->LoadSeen()->empty());
  EXPECT_EQ(leads->next_job_id(), 2);
  EXPECT_EQ(OpenStore(client_, {.cluster = "c", .create_revision = 1}).status(), refused);
}

TEST_F(EtcdJobStoreTest, AnEtcdThatStandsStillEndsAChangeWithOneLine) {
  const Leadership leadership = Lead();
  const auto store = OpenStore(etcd_->Client(absl::Seconds(1)), leadership);
  ASSERT_TRUE(store.ok()) << store.status();
  etcd_->Signal(SIGSTOP);
  const absl::Time began = absl::Now();
  const absl::Status saved = (*store)->Save(Job(1, "a"));
  EXPECT_LT(absl::Now() - began, absl::Seconds(5));
  EXPECT_EQ(saved.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(saved.message()),
              HasSubstr(absl::StrCat(client_->name(), " does not answer: ")));
  etcd_->Signal(SIGCONT);
}

TEST_F(EtcdJobStoreTest, AnotherClustersKeysAreNotTouched) {
  ASSERT_TRUE(Open("c")->Save(Job(1, "c's", 2 << 20)).ok());
  const std::set<std::string> keys = KeysOf("c");
  const std::string id = Open("c")->cluster_id();
  const auto other = Open("c.2");
  EXPECT_NE(other->cluster_id(), id);
  EXPECT_TRUE(other->Load()->empty());
  ASSERT_TRUE(other->Save(Job(1, "other")).ok());
  ASSERT_TRUE(other->SaveSeen({{1, 1}}).ok());
  ASSERT_TRUE(other->Remove(JobId(1)).ok());
  std::set<std::string> left = KeysOf("c");
  left.insert("leader");
  EXPECT_EQ(left, keys);
  EXPECT_EQ((*Open("c")->Load())[0].status().name(), "c's");
}

TEST_F(EtcdJobStoreTest, ANewerVersionsStateIsRefusedAndStaysAsItIs) {
  ASSERT_TRUE(Open()->Save(Job(1, "a")).ok());
  for (const std::string version : {"3", "999", "0"}) {
    Change(Put(keys_.Schema(), version));
    const std::set<std::string> keys = KeysOf("c");
    EXPECT_EQ(TryOpen().status(), absl::FailedPreconditionError(absl::StrCat(
                                      client_->name(), ": strata/c/schema: its schema has version ",
                                      version, ", this strata knows versions 1 to 2")));
    EXPECT_EQ(Schema(), version);
  }
}

TEST_F(EtcdJobStoreTest, TheStateOfAnOlderCoordinatorIsTakenOverAndOlderOnesRefuseItThen) {
  const std::string id = Open()->cluster_id();
  EXPECT_EQ(Schema(), "2") << "a new one";
  ASSERT_TRUE(Open()->Save(Job(4, "a")).ok());
  Change(Put(keys_.Schema(), "1"));
  const auto store = Open();
  EXPECT_EQ(Schema(), "2");
  EXPECT_EQ(store->cluster_id(), id);
  EXPECT_EQ(store->next_job_id(), 5);
  EXPECT_EQ(store->Load()->at(0).SerializeAsString(), Job(4, "a").SerializeAsString());
}

TEST_F(EtcdJobStoreTest, KeysOfSomethingElseAreRefused) {
  Change(Put(keys_.prefix() + "mine", "x"));
  EXPECT_EQ(TryOpen().status(),
            absl::FailedPreconditionError(absl::StrCat(
                client_->name(),
                ": strata/c/mine is there and strata/c/schema is not: these are not the keys of a "
                "cluster of strata, or damaged; name another cluster, or remove them")));
}

TEST_F(EtcdJobStoreTest, WhatIsDamagedIsNamedByItsKey) {
  const auto expect_damaged = [&](const absl::Status& status, const std::string& key) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(client_->name(), ": ", key, ": is damaged")));
  };
  auto store = Open();
  ASSERT_TRUE(store->Save(Job(1, "a", 3 << 20)).ok());
  const auto head = client_->Range(RangeOf(keys_.Job(JobId(1))));
  const std::string set = ParseHead(OnlyKey(*head)->value())->part_set();
  Change(Put(EtcdKeys::PartIn(keys_.Parts(JobId(1)), set, 1), "short"));
  expect_damaged(store->Load().status(), keys_.Job(JobId(1)));
  Change(Put(keys_.Job(JobId(1)), "x"));
  expect_damaged(store->Load().status(), keys_.Job(JobId(1)));
  Change(Put(keys_.Job(JobId(1)), Split(Job(2, "b").SerializeAsString(), "").head));
  expect_damaged(store->Load().status(), keys_.Job(JobId(1)));
  ASSERT_TRUE(store->Remove(JobId(1)).ok());

  Change(Put(keys_.SeenBlock(1), "x"));
  expect_damaged(TryOpen().status(), keys_.SeenBlock(1));
  Change(Delete(keys_.SeenBlock(1)));
  Change(Put(keys_.LastJobId(), "x"));
  expect_damaged(TryOpen().status(), keys_.LastJobId());
  Change(Put(keys_.LastJobId(), "1"));
  Change(Put(keys_.ClusterId(), ""));
  expect_damaged(TryOpen().status(), keys_.ClusterId());
  Change(Put(keys_.Schema(), "x"));
  expect_damaged(TryOpen().status(), keys_.Schema());
}

TEST_F(EtcdJobStoreTest, ALeaderThatIsKilledIsFollowedByAnotherThatSeesAllItsJobs) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  auto leader = Process::Start({.args = {"contender", kContender, etcd_->endpoint()},
                                .executable = std::filesystem::read_symlink("/proc/self/exe"),
                                .stdout_fd = pipe_fds[1]});
  ASSERT_TRUE(leader.ok()) << leader.status();
  close(pipe_fds[1]);
  char byte = 0;
  ASSERT_EQ(read(pipe_fds[0], &byte, 1), 1) << "it has not led";
  close(pipe_fds[0]);
  auto standby =
      LeaderLease::Start(client_, {.cluster = "c", .address = "standby:1", .on_deposed = {}});
  ASSERT_TRUE(standby.ok()) << standby.status();
  EXPECT_EQ((*standby)->leader(), "killed:1");
  EXPECT_EQ((*standby)->AwaitElection(absl::Seconds(4)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  (*leader)->Signal(SIGKILL);
  const absl::Time killed = absl::Now();
  const auto leadership = (*standby)->AwaitElection(kLong);
  ASSERT_TRUE(leadership.ok()) << leadership.status();
  RecordProperty("took_over_ms", absl::ToInt64Milliseconds(absl::Now() - killed));
  EXPECT_GT(absl::Now() - killed, absl::Seconds(1)) << "it may have led for so long";
  const auto store = OpenStore(client_, *leadership);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::vector<proto::StoredJob> jobs = *(*store)->Load();
  ASSERT_EQ(jobs.size(), 2);
  EXPECT_EQ(jobs[0].SerializeAsString(), Job(1, "large", 5 << 20).SerializeAsString());
  EXPECT_EQ(jobs[1].SerializeAsString(), Job(2, "small").SerializeAsString());
  EXPECT_EQ((*store)->LoadSeen()->size(), 1);
  EXPECT_EQ((*store)->next_job_id(), 3);
}

// Leads, saves what the test expects, reports that, and waits to be killed.
int Contend(const std::string& endpoint) {
  auto client = EtcdClient::Open({.endpoints = endpoint, .tls = {}});
  if (!client.ok()) return 1;
  const std::shared_ptr<EtcdClient> shared = *std::move(client);
  auto lease =
      LeaderLease::Start(shared, {.cluster = "c", .address = "killed:1", .on_deposed = {}});
  if (!lease.ok()) return 1;
  const auto leadership = (*lease)->AwaitElection(kLong);
  if (!leadership.ok()) return 1;
  auto store = OpenStore(shared, *leadership);
  const bool saved = store.ok() && (*store)->Save(Job(1, "large", 5 << 20)).ok() &&
                     (*store)->Save(Job(2, "small")).ok() && (*store)->SaveSeen({{5, 1}}).ok();
  if (!saved || write(STDOUT_FILENO, "!", 1) != 1) return 1;
  absl::SleepFor(absl::Hours(1));
  return 0;
}

}  // namespace
}  // namespace strata::server

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == strata::server::kContender) {
    return strata::server::Contend(argv[2]);
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
