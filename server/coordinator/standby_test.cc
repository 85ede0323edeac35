// Several coordinators with one etcd, in this process. failover_test kills coordinators.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "common/control/keys_client.h"
#include "common/control/session.h"
#include "common/keys/join_token.h"
#include "common/testing/short_folder.h"
#include "gmock/gmock.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/testing/fake_daemon.h"
#include "server/testing/standby_fixture.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

class StandbyTest : public StandbyFixture {};

TEST_F(StandbyTest, OneLeadsAndTheOtherAnswersEachCallWithItsAddress) {
  StandingCoordinator a(OptionsOf("a"));
  ASSERT_TRUE(a.Start().ok());
  const auto at_a = ClientOf(a.address());
  const JobId job = *at_a->Submit(SomeJob(1));
  StandingCoordinator b(OptionsOf("b"));
  ASSERT_TRUE(b.Start().ok());
  const auto at_b = ClientOf(b.address(), absl::Seconds(2));
  const std::string leads = absl::StrCat(": ", a.address(), " leads");
  EXPECT_EQ(at_b->GetJob(job).status(),
            absl::UnavailableError(absl::StrCat("coordinator at ", b.address(),
                                                " cannot be reached (tried for 2s)", leads)));
  EXPECT_THAT(std::string(at_b->Submit(SomeJob(1)).status().message()), HasSubstr(leads));
  EXPECT_THAT(std::string(at_b->Follow(job, [](const auto&) {}).status().message()),
              HasSubstr(leads));
  EXPECT_THAT(std::string(control::ListKeys({.coordinator = b.address(),
                                             .credentials = control::Credentials::File(
                                                 keys_->PathOf(keys::Role::kUser, "ada")),
                                             .deadline = absl::Seconds(2)})
                              .status()
                              .message()),
              HasSubstr(leads));
  // A client that knows both addresses finds the leader, in either order.
  EXPECT_EQ(ClientOf(absl::StrCat(b.address(), ",", a.address()))->GetJob(job)->job_id(), 1u);
  EXPECT_EQ(ClientOf(absl::StrCat(a.address(), ",", b.address()))->Submit(SomeJob(1))->value(), 2u);
}

TEST_F(StandbyTest, OneThatStopsHandsOverAndJobsAndDaemonsGoOn) {
  auto a = std::make_unique<StandingCoordinator>(OptionsOf("a"));
  ASSERT_TRUE(a->Start().ok());
  StandingCoordinator b(OptionsOf("b"));
  ASSERT_TRUE(b.Start().ok());
  const std::string both = absl::StrCat(a->address(), ",", b.address());
  FakeDaemon server(both, FakeDaemon::Server("s1", {5001}), &*keys_);
  FakeDaemon worker(both, FakeDaemon::Worker("w1", 1), &*keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  const auto client = ClientOf(both);
  const JobId running = *client->Submit(SomeJob(1));
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, running.value()));
  const JobId waiting = *client->Submit(SomeJob(1));
  const std::string cluster_id = client->ListNodes()->cluster_id();
  a->Stop();
  EXPECT_FALSE(a->is_lost()) << "it stops by itself";
  worker.Finish(running.value());  // sent once the connection is back
  EXPECT_EQ(WaitForState(*client, running, proto::FINISHED).state(), proto::FINISHED);
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, waiting.value()));
  worker.Finish(waiting.value());
  EXPECT_EQ(WaitForState(*client, waiting, proto::FINISHED).state(), proto::FINISHED);
  EXPECT_EQ(client->ListNodes()->cluster_id(), cluster_id);
  EXPECT_EQ(client->Submit(SomeJob(1))->value(), waiting.value() + 1);
  // It may stand by again.
  StandingCoordinator again(OptionsOf("a"));
  EXPECT_TRUE(again.Start().ok());
}

TEST_F(StandbyTest, AnEtcdThatIsAwayForAShortTimeCostsNothing) {
  Coordinator::Options options = OptionsOf("a");
  options.etcd.failover = absl::Seconds(20);
  StandingCoordinator a(options);
  ASSERT_TRUE(a.Start().ok());
  FakeDaemon server(a.address(), FakeDaemon::Server("s1", {5001}), &*keys_);
  FakeDaemon worker(a.address(), FakeDaemon::Worker("w1", 2), &*keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  const auto client = ClientOf(a.address());
  const JobId before = *client->Submit(SomeJob(1));
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, before.value()));
  etcd_->Signal(SIGSTOP);
  absl::StatusOr<JobId> meanwhile = absl::UnknownError("");
  std::thread submits([&] { meanwhile = client->Submit(SomeJob(1)); });
  absl::SleepFor(absl::Milliseconds(500));
  etcd_->Signal(SIGCONT);
  submits.join();
  ASSERT_TRUE(meanwhile.ok()) << meanwhile.status();
  EXPECT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, meanwhile->value()));
  EXPECT_EQ(client->GetJob(before)->state(), proto::RUNNING);
  EXPECT_FALSE(a.is_lost());
}

TEST_F(StandbyTest, AnEtcdThatStaysAwayDeposesTheLeaderAndTrainingGoesOnWithoutIt) {
  auto a = std::make_unique<StandingCoordinator>(OptionsOf("a"));
  ASSERT_TRUE(a->Start().ok());
  const std::string address = a->address();
  FakeDaemon server(address, FakeDaemon::Server("s1", {5001}), &*keys_);
  FakeDaemon worker(address, FakeDaemon::Worker("w1", 1), &*keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  const auto client = ClientOf(address);
  const JobId job = *client->Submit(SomeJob(1));
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, job.value()));
  etcd_->Kill();
  std::thread cancels([&] {
    EXPECT_EQ(ClientOf(address, absl::Seconds(10))->Cancel(job).code(),
              absl::StatusCode::kUnavailable)
        << "nobody could save that";
  });
  const std::optional<absl::Status> lost = a->WaitLost();
  ASSERT_TRUE(lost.has_value());
  EXPECT_THAT(std::string(lost->message()), HasSubstr("this coordinator leads no longer: strata/"));
  EXPECT_THAT(std::string(lost->message()), HasSubstr("could not be refreshed in time"));
  a->Stop();
  a.reset();
  cancels.join();
  EXPECT_EQ(worker.Count(proto::CoordinatorMessage::kStopNode), 0);
  ASSERT_TRUE(etcd_->Restart().ok());
  Coordinator::Options options = OptionsOf("a");
  options.listen = address;
  StandingCoordinator again(options);
  ASSERT_TRUE(again.Start().ok());
  EXPECT_EQ(client->GetJob(job)->state(), proto::RUNNING);
  worker.Finish(job.value());
  EXPECT_EQ(WaitForState(*client, job, proto::FINISHED).state(), proto::FINISHED);
}

// Its operators make tokens through the leader's socket.
class SharedBookTest : public StandbyFixture {
 protected:
  Coordinator::Options OptionsOf(const std::string& name) {
    Coordinator::Options options = StandbyFixture::OptionsOf(name);
    options.own_keys.reset();
    options.state_dir = absl::StrCat(short_.path(), "/", name);
    options.also_listen = absl::StrCat(short_.path(), "/own-", name);
    return options;
  }
  control::KeysOptions Own(const std::string& name) const {
    return {.coordinator = absl::StrCat("unix:", short_.path(), "/own-", name),
            .deadline = absl::Seconds(60)};
  }
  keys::JoinToken TokenOf(const std::string& coordinator, const std::string& user) {
    proto::MakeTokenRequest request;
    request.add_roles("user");
    request.set_name(user);
    request.set_ttl_s(600);
    request.set_uses(1);
    const auto token = control::MakeToken(Own(coordinator), request);
    EXPECT_TRUE(token.ok()) << token.status();
    return *keys::ParseJoinToken(*token);
  }
  static absl::StatusOr<keys::KeyFile> Join(const std::string& coordinator,
                                            const keys::JoinToken& token, const std::string& user) {
    return control::Join({.coordinator = coordinator, .deadline = absl::Seconds(60)}, token,
                         keys::Role::kUser, user);
  }

  const ShortFolder short_;
};

TEST_F(SharedBookTest, TokensAndRevocationsAreSharedAndTheFirstOnesBookIsTaken) {
  const std::string state = OptionsOf("a").state_dir;
  ASSERT_TRUE(InitKeys(state, "c", absl::Now()).ok());
  std::filesystem::create_directories(OptionsOf("b").state_dir);
  std::filesystem::copy(state + "/keys", OptionsOf("b").state_dir + "/keys",
                        std::filesystem::copy_options::recursive);
  std::optional<keys::JoinToken> early;
  {
    Coordinator::Options options = OptionsOf("a");
    options.etcd = {};
    StandingCoordinator alone(options);
    ASSERT_TRUE(alone.Start().ok());
    early = TokenOf("a", "ada");
  }
  for (const char* beside : {"", "-wal", "-shm"}) {
    std::filesystem::remove(absl::StrCat(state, "/", "coordinator.sqlite", beside));
  }
  auto a = std::make_unique<StandingCoordinator>(OptionsOf("a"));
  ASSERT_TRUE(a->Start().ok());
  const keys::JoinToken late = TokenOf("a", "eve");
  StandingCoordinator b(OptionsOf("b"));
  ASSERT_TRUE(b.Start().ok());
  const std::string both = absl::StrCat(b.address(), ",", a->address());
  const auto ada = Join(both, *early, "ada");
  ASSERT_TRUE(ada.ok()) << ada.status();
  a->Stop();
  const auto eve = Join(both, late, "eve");
  ASSERT_TRUE(eve.ok()) << eve.status();
  EXPECT_EQ(Join(both, *early, "ada").status().code(), absl::StatusCode::kPermissionDenied)
      << "it was used up";
  proto::RevokeRequest revoke;
  revoke.set_name("eve");
  ASSERT_TRUE(control::Revoke(Own("b"), revoke).ok());
  StandingCoordinator again(OptionsOf("a"));
  ASSERT_TRUE(again.Start().ok());
  b.Stop();
  const auto lists = [&](const keys::KeyFile& keys) {
    return control::CoordinatorClient::Create({.coordinator = again.address(),
                                               .credentials = control::Credentials::Of(keys),
                                               .deadline = absl::Seconds(60)})
        ->ListJobs()
        .status();
  };
  EXPECT_EQ(lists(*ada), absl::OkStatus());
  EXPECT_THAT(std::string(lists(*eve).message()), HasSubstr("was revoked"));
}

TEST_F(StandbyTest, WhatCannotStandByIsRefusedInALine) {
  Coordinator::Options options = OptionsOf("a");
  options.etcd.endpoints = "127.0.0.1:1";
  EXPECT_THAT(std::string(StandingCoordinator(options).Start().message()),
              HasSubstr("etcd at 127.0.0.1:1 does not answer"));
  options.etcd.endpoints = "127.0.0.1";
  EXPECT_THAT(std::string(StandingCoordinator(options).Start().message()),
              HasSubstr("etcd endpoint \"127.0.0.1\": is no HOST:PORT"));
  options = OptionsOf("a");
  options.etcd.ca_file = "/nowhere.pem";
  EXPECT_THAT(std::string(StandingCoordinator(options).Start().message()),
              HasSubstr("/nowhere.pem"));
  options = OptionsOf("a");
  options.etcd.cluster = "a/b";
  EXPECT_THAT(std::string(StandingCoordinator(options).Start().message()),
              HasSubstr("cluster name \"a/b\""));
  options = OptionsOf("a");
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(std::string(Coordinator::Create(options).status().message()),
              HasSubstr("--listen 0.0.0.0:0 is no address that other hosts know this one by"));
  options = OptionsOf("old");
  std::filesystem::create_directories(options.state_dir);
  std::ofstream(options.state_dir + "/coordinator.sqlite") << "x";
  EXPECT_THAT(std::string(StandingCoordinator(options).Start().message()),
              HasSubstr("coordinator.sqlite has the jobs of a coordinator without etcd"));
}

TEST_F(StandbyTest, OneOfAnotherClusterIsRefused) {
  StandingCoordinator a(OptionsOf("a"));
  ASSERT_TRUE(a.Start().ok());
  ASSERT_TRUE(ClientOf(a.address())->ListJobs().ok());
  Coordinator::Options options = OptionsOf("b");
  keys::KeyFolder others(folder_ + "-others");
  options.own_keys = *keys::ReadKeyFile(others.PathOf(keys::Role::kCoordinator, "coordinator"));
  const absl::Status status = StandingCoordinator(options).Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to a cluster with the authority"));
}

TEST_F(StandbyTest, AFolderOfAnotherClusterIsRefusedAndBothAreNamed) {
  std::string own, others;
  for (const auto& [name, id] : {std::pair("a", &own), std::pair("b", &others)}) {
    Coordinator::Options options = OptionsOf(name);
    options.etcd.cluster = name;
    StandingCoordinator leads(options);
    ASSERT_TRUE(leads.Start().ok());
    *id = ClientOf(leads.address())->ListNodes()->cluster_id();
  }
  const auto refusal = [&](const std::string& cluster) {
    Coordinator::Options options = OptionsOf("a");
    options.etcd.cluster = cluster;
    return std::string(StandingCoordinator(options).Start().message());
  };
  EXPECT_EQ(refusal("a"), "");
  const std::string of_a = absl::StrCat("this folder is of cluster a (", own, "), and etcd at ",
                                        etcd_->endpoint(), " has ");
  EXPECT_THAT(refusal("b"), HasSubstr(absl::StrCat(of_a, "cluster b (", others, ")")));
  EXPECT_THAT(refusal("new"), HasSubstr(of_a + "no cluster new"));
  Coordinator::Options options = OptionsOf("a");
  options.etcd = {};
  EXPECT_THAT(
      std::string(StandingCoordinator(options).Start().message()),
      HasSubstr(absl::StrCat("this folder is of cluster a (", own, "), whose jobs are in etcd")));
}

TEST_F(StandbyTest, KeysOfSomethingElseAreRefusedBeforeItStandsBy) {
  etcdserverpb::TxnRequest request;
  *request.add_success() = Put("strata/c/mine", "x");
  ASSERT_TRUE(etcd_->Client()->Txn(request).ok());
  Coordinator::Options options = OptionsOf("a");
  options.etcd.cluster = "c";
  EXPECT_THAT(std::string(StandingCoordinator(options).Start().message()),
              HasSubstr("strata/c/mine is there and strata/c/schema is not: these are not the keys "
                        "of a cluster of strata"));
}

TEST_F(StandbyTest, ADaemonThatKnowsALaterLeaderIsSentOnAndNotRefused) {
  StandingCoordinator a(OptionsOf("a"));
  ASSERT_TRUE(a.Start().ok());
  ASSERT_TRUE(ClientOf(a.address())->ListJobs().ok());
  control::Session::Options session;
  session.coordinator = a.address();
  session.credentials = control::Credentials::File(keys_->PathOf(keys::Role::kWorker, "w1"));
  session.registration = FakeDaemon::Worker("w1", 1);
  session.registration.set_epoch(uint64_t{1} << 62);
  session.connect_deadline = absl::Seconds(1);
  const auto daemon =
      control::Session::Create(session, {.on_message = [](const auto&) {},
                                         .heartbeat = [] { return proto::Heartbeat(); },
                                         .running_jobs = [] { return std::vector<uint32_t>(); },
                                         .on_lost = [](const auto&) {}});
  EXPECT_EQ(daemon->Start().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ClientOf(a.address())->ListNodes()->daemons_size(), 0);
  EXPECT_FALSE(a.is_lost()) << "etcd says that it leads";
}

}  // namespace
}  // namespace strata::server
