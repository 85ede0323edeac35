#include "server/coordinator/members/membership.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr char kCluster[] = "cluster-a";

proto::Register Worker(const std::string& name, uint64_t daemon_id, uint32_t attempt = 1) {
  proto::Register registration;
  registration.set_protocol_version(kProtocolVersion);
  registration.set_role(proto::WORKER);
  registration.set_name(name);
  registration.set_daemon_id(daemon_id);
  registration.set_attempt(attempt);
  registration.set_address("10.0.0.1");
  registration.set_slots(2);
  return registration;
}

class MembershipTest : public ::testing::Test {
 protected:
  std::string Refusal(const proto::Register& registration) {
    const auto joined = membership_.Register(SessionId(99), registration, Now());
    EXPECT_EQ(joined.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(joined.status().message());
  }
  void Join(uint64_t session, const proto::Register& registration) {
    ASSERT_TRUE(membership_.Register(SessionId(session), registration, Now()).ok());
  }
  absl::Time Now() const { return absl::UnixEpoch() + absl::Milliseconds(now_ms_); }

  int64_t now_ms_ = 1'000'000;
  Membership membership_{Membership::Options(), kCluster};
};

TEST_F(MembershipTest, RefusesAnotherProtocolVersionNamingAll) {
  const std::string speaks = absl::StrCat(", the coordinator speaks ", kProtocolVersionOldest,
                                          " and ", kProtocolVersion, ": ");
  proto::Register worker = Worker("w1", 1);
  worker.set_protocol_version(kProtocolVersion + 1);
  EXPECT_EQ(Refusal(worker), absl::StrCat("it speaks protocol version ", kProtocolVersion + 1,
                                          speaks, "upgrade the coordinator first"));
  worker.set_protocol_version(kProtocolVersionOldest - 1);
  EXPECT_EQ(Refusal(worker),
            absl::StrCat("it speaks protocol version ", kProtocolVersionOldest - 1, speaks,
                         "install the coordinator's version of strata here"));
}

TEST_F(MembershipTest, TakesTheVersionBeforeItsOwn) {
  proto::Register worker = Worker("w1", 1);
  worker.set_protocol_version(kProtocolVersionOldest);
  EXPECT_TRUE(membership_.Register(SessionId(1), worker, Now()).ok());
}

TEST_F(MembershipTest, RefusesAVersionOfTheProgramThatIsNoWord) {
  proto::Register worker = Worker("w1", 1);
  worker.set_version("1\n2");
  EXPECT_EQ(Refusal(worker), "its version contains a control character");
}

TEST_F(MembershipTest, RefusesADaemonOfAnotherCluster) {
  proto::Register worker = Worker("w1", 1);
  worker.set_cluster_id("cluster-b");
  EXPECT_EQ(Refusal(worker),
            "it belongs to cluster cluster-b, the coordinator to cluster cluster-a");
  worker.set_cluster_id(kCluster);
  Join(1, worker);
}

TEST_F(MembershipTest, RefusesWhatCouldNotWork) {
  proto::Register daemon = Worker("", 1);
  EXPECT_EQ(Refusal(daemon), "it has no name");
  daemon = Worker("w1", 1);
  daemon.set_slots(0);
  EXPECT_EQ(Refusal(daemon), "it is a worker without slots");
  daemon.set_role(proto::SERVER);
  EXPECT_EQ(Refusal(daemon), "it is a server without shards");
  daemon.add_shard_ports(7100);
  daemon.set_stands_in(true);
  EXPECT_EQ(Refusal(daemon), "it is a server that only stands in: workers alone can");
  daemon.set_role(proto::ROLE_UNSPECIFIED);
  EXPECT_EQ(Refusal(daemon), "its role 0 is unknown");
  daemon.clear_address();
  EXPECT_EQ(Refusal(daemon), "it gives no address that peers can reach");
  EXPECT_EQ(Refusal(Worker("w1", 1, 0)), "it does not count its registrations");
  daemon = Worker("w1", 1);
  daemon.set_link_bytes_per_s(-1);
  EXPECT_EQ(Refusal(daemon), "its link's rate -1 is no number of bytes a second");
  daemon.set_link_bytes_per_s(std::numeric_limits<double>::infinity());
  EXPECT_EQ(Refusal(daemon), "its link's rate inf is no number of bytes a second");
  daemon.set_host(std::string(256, 'x'));
  EXPECT_EQ(Refusal(daemon), "its host has 256 bytes, at most 255 are possible");
}

TEST_F(MembershipTest, RefusesMoreThanThereMayBeOfAnythingWithFigureAndLimit) {
  proto::Register daemon = Worker("w1", 1);
  daemon.set_slots(1025);
  EXPECT_EQ(Refusal(daemon), "it has 1025 slots, at most 1024 are possible");
  daemon.set_slots(1024);
  daemon.set_name(std::string(256, 'x'));
  EXPECT_EQ(Refusal(daemon), "its name has 256 bytes, at most 255 are possible");
  daemon.set_name("w\n1");
  EXPECT_EQ(Refusal(daemon), "its name contains a control character");
  daemon.set_name(std::string(255, 'x'));
  daemon.set_address(std::string(256, 'x'));
  EXPECT_EQ(Refusal(daemon), "its address has 256 bytes, at most 255 are possible");
  daemon.set_address("h");
  for (int i = 0; i <= 65536; ++i) daemon.add_running_jobs(i);
  EXPECT_EQ(Refusal(daemon), "it has 65537 jobs, at most 65536 are possible");
  daemon.mutable_running_jobs()->RemoveLast();
  Join(1, daemon);

  daemon = Worker("s1", 2);
  daemon.set_role(proto::SERVER);
  for (int i = 0; i < 64; ++i) daemon.add_shard_ports(65535);
  Join(2, daemon);
  daemon.set_attempt(2);
  daemon.add_shard_ports(7000);
  EXPECT_EQ(Refusal(daemon), "it has 65 shards, at most 64 are possible");
  daemon.clear_shard_ports();
  daemon.add_shard_ports(65536);
  EXPECT_EQ(Refusal(daemon), "its shard's port 65536 is not in 1 to 65535");
}

TEST_F(MembershipTest, RefusesGpusThatCannotBe) {
  proto::Register daemon = Worker("w1", 1);
  for (uint32_t i = 0; i < 2; ++i) daemon.add_gpus()->set_index(i);
  EXPECT_EQ(Refusal(daemon), "its GPUs take no ranks");
  daemon.set_ranks_per_gpu(513);
  EXPECT_EQ(Refusal(daemon), "it has 1026 GPU slots, at most 1024 are possible");
  daemon.set_ranks_per_gpu(1u << 31);
  EXPECT_EQ(Refusal(daemon), "it has 2147483648 ranks per GPU, at most 1024 are possible");
  daemon.set_ranks_per_gpu(512);
  daemon.mutable_gpus(1)->set_index(0);
  EXPECT_EQ(Refusal(daemon), "its GPU 0 does not come after GPU 0");
  daemon.mutable_gpus(1)->set_index(1);
  daemon.mutable_gpus(1)->set_name("a\nb");
  EXPECT_EQ(Refusal(daemon), "its GPU's name contains a control character");
  daemon.mutable_gpus(1)->set_name("H100");
  Join(1, daemon);
  EXPECT_EQ(CountGpuSlots(membership_.Find("w1")->registration), 1024u);
  daemon.set_attempt(2);
  daemon.set_role(proto::SERVER);
  daemon.add_shard_ports(7000);
  EXPECT_EQ(Refusal(daemon), "it is a server with GPUs");
}

TEST_F(MembershipTest, KeepsNoMoreOfAHeartbeatThanFits) {
  Join(1, Worker("w1", 1));
  proto::Heartbeat heartbeat;
  heartbeat.add_refusals()->set_cause(std::string(256, 'x'));
  for (int i = 0; i < 100; ++i) {
    heartbeat.add_refusals()->set_cause("noise");
    heartbeat.add_resources()->set_name("memory bytes");
  }
  membership_.Report("w1", heartbeat);
  EXPECT_EQ(membership_.Find("w1")->report.refusals_size(), 64);
  EXPECT_EQ(membership_.Find("w1")->report.resources_size(), 64);
  EXPECT_EQ(membership_.Find("w1")->report.refusals(0).cause(), "noise");
}

TEST_F(MembershipTest, ACopyOfARegistrationIsRefusedAndChangesNothing) {
  Join(1, Worker("w1", 1));
  Join(2, Worker("w1", 1, 2));
  const auto is_copy = [&](uint32_t attempt) {
    const auto joined = membership_.Register(SessionId(3), Worker("w1", 1, attempt), Now());
    return joined.status() ==
           absl::AlreadyExistsError(absl::StrCat("its registration ", attempt,
                                                 " was seen before, the newest is 2: this is a "
                                                 "copy"));
  };
  EXPECT_TRUE(is_copy(1));
  EXPECT_TRUE(is_copy(2));
  EXPECT_EQ(membership_.Heard(SessionId(2), Now()), "w1");
  EXPECT_EQ(membership_.Heard(SessionId(3), Now()), "");
  // Nor once the daemon is away, or lost, or another process has its name.
  membership_.Disconnected(SessionId(2), Now());
  EXPECT_TRUE(is_copy(2));
  now_ms_ += 2000;
  EXPECT_EQ(membership_.Tick(Now()).size(), 1u);
  EXPECT_TRUE(is_copy(2));
  Join(4, Worker("w1", 5));
  membership_.Disconnected(SessionId(4), Now());
  EXPECT_TRUE(is_copy(2));
  EXPECT_TRUE(membership_.Find("w1")->alive);
}

TEST_F(MembershipTest, ACopyIsKnownAfterARestart) {
  Join(1, Worker("w1", 1, 3));
  Membership next(Membership::Options(), kCluster);
  next.seen().Restore(membership_.seen().Unsaved());
  EXPECT_EQ(next.Register(SessionId(1), Worker("w1", 1, 3), Now()).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(next.Register(SessionId(1), Worker("w1", 1, 4), Now()).ok());
}

TEST_F(MembershipTest, RefusesANameThatALiveDaemonHas) {
  Join(1, Worker("w1", 1));
  EXPECT_EQ(Refusal(Worker("w1", 2)), "the name \"w1\" is in use by a live daemon at 10.0.0.1");
}

TEST_F(MembershipTest, ANewProcessTakesTheNameOfOneWhoseConnectionHasEnded) {
  Join(1, Worker("w1", 1));
  membership_.Disconnected(SessionId(1), Now());
  const auto joined = membership_.Register(SessionId(2), Worker("w1", 2), Now());
  ASSERT_TRUE(joined.ok());
  EXPECT_FALSE(joined->returned);
  ASSERT_EQ(joined->lost.size(), 1);
  EXPECT_EQ(joined->lost[0].why, "it was started anew");
}

TEST_F(MembershipTest, TheSameProcessReturnsInTimeAndNothingIsLost) {
  Join(1, Worker("w1", 1));
  membership_.Disconnected(SessionId(1), Now());
  now_ms_ += 1999;
  EXPECT_TRUE(membership_.Tick(Now()).empty());
  const auto joined = membership_.Register(SessionId(2), Worker("w1", 1, 2), Now());
  ASSERT_TRUE(joined.ok());
  EXPECT_TRUE(joined->returned);
  now_ms_ += 3000;
  EXPECT_TRUE(membership_.Tick(Now()).empty());
}

TEST_F(MembershipTest, TheSameProcessOnANewConnectionReplacesTheOldOne) {
  Join(1, Worker("w1", 1));
  const auto joined = membership_.Register(SessionId(2), Worker("w1", 1, 2), Now());
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->replaced, SessionId(1));
  EXPECT_EQ(membership_.Heard(SessionId(1), Now()), "");
  EXPECT_EQ(membership_.Heard(SessionId(2), Now()), "w1");
  membership_.Disconnected(SessionId(1), Now());  // the end of the old connection comes late
  now_ms_ += 3000;
  EXPECT_TRUE(membership_.Tick(Now()).empty());
}

TEST_F(MembershipTest, AClosedConnectionIsLostAfterTheGraceOnce) {
  Join(1, Worker("w1", 1));
  membership_.Disconnected(SessionId(1), Now());
  now_ms_ += 2000;
  const std::vector<Membership::Lost> lost = membership_.Tick(Now());
  ASSERT_EQ(lost.size(), 1);
  EXPECT_EQ(lost[0].name, "w1");
  EXPECT_EQ(lost[0].role, proto::WORKER);
  EXPECT_EQ(lost[0].why, "its connection ended and it did not come back");
  EXPECT_TRUE(membership_.Tick(Now()).empty());
  EXPECT_FALSE(membership_.Find("w1")->alive);
  EXPECT_TRUE(membership_.Alive(proto::WORKER).empty());
}

TEST_F(MembershipTest, ASilentDaemonIsLostAfterDeadAfterAndItsConnectionClosed) {
  Join(1, Worker("w1", 1));
  now_ms_ += 4999;
  EXPECT_TRUE(membership_.Tick(Now()).empty());
  EXPECT_EQ(membership_.Heard(SessionId(1), Now()), "w1");
  now_ms_ += 4999;
  EXPECT_TRUE(membership_.Tick(Now()).empty());
  now_ms_ += 1;
  const std::vector<Membership::Lost> lost = membership_.Tick(Now());
  ASSERT_EQ(lost.size(), 1);
  EXPECT_EQ(lost[0].why, "it has been silent for 5s");
  EXPECT_EQ(lost[0].session, SessionId(1));
  EXPECT_EQ(membership_.Heard(SessionId(1), Now()), "");
}

TEST_F(MembershipTest, AProcessThatIsKnownToHaveEndedIsNotWaitedFor) {
  Join(1, Worker("w1", 1));
  membership_.Ended("w1", 1);
  EXPECT_TRUE(membership_.Tick(Now()).empty()) << "it is connected";
  EXPECT_EQ(membership_.Disconnected(SessionId(1), Now()), membership_.Find("w1"));
  EXPECT_EQ(membership_.Disconnected(SessionId(1), Now()), nullptr);
  membership_.Ended("w1", 7);
  EXPECT_TRUE(membership_.Tick(Now()).empty()) << "another process";
  membership_.Ended("w1", 1);
  const auto lost = membership_.Tick(Now());
  ASSERT_EQ(lost.size(), 1);
  EXPECT_EQ(lost[0].why, "its process has ended");
  // A daemon that registers is present.
  Join(2, Worker("w1", 1, 2));
  EXPECT_TRUE(membership_.Tick(Now()).empty());
}

TEST_F(MembershipTest, DaemonsAreListedInTheOrderOfFirstRegistration) {
  Join(1, Worker("z", 1));
  Join(2, Worker("a", 2));
  membership_.Disconnected(SessionId(1), Now());
  Join(3, Worker("z", 1, 2));
  const auto alive = membership_.Alive(proto::WORKER);
  ASSERT_EQ(alive.size(), 2);
  EXPECT_EQ(alive[0]->registration.name(), "z");
  EXPECT_EQ(alive[1]->registration.name(), "a");
}

TEST(SeenRegistrations, KnowsTheHighestAttemptOfEveryDaemon) {
  SeenRegistrations seen;
  EXPECT_EQ(seen.NewestAttempt(7), 0u);
  seen.Note(7, 1);
  seen.Note(8, 4);
  seen.Note(7, 2);
  EXPECT_EQ(seen.NewestAttempt(7), 2u);
  EXPECT_EQ(seen.NewestAttempt(8), 4u);
}

TEST(SeenRegistrations, GivesTheStoreWhatIsNewOnceTheOldestFirst) {
  SeenRegistrations seen;
  seen.Restore({{.daemon_id = 1, .attempt = 9}});
  EXPECT_TRUE(seen.Unsaved().empty());
  EXPECT_EQ(seen.NewestAttempt(1), 9u);
  seen.Note(7, 1);
  seen.Note(8, 4);
  seen.Note(7, 2);
  ASSERT_EQ(seen.Unsaved().size(), 2u);
  EXPECT_EQ(seen.Unsaved()[0].daemon_id, 8u);
  EXPECT_EQ(seen.Unsaved()[1].daemon_id, 7u);
  EXPECT_EQ(seen.Unsaved()[1].attempt, 2u);
  seen.Saved();
  EXPECT_TRUE(seen.Unsaved().empty());
}

TEST(SeenRegistrations, ForgetsWhoRegisteredLongestAgo) {
  SeenRegistrations seen(/*max=*/2);
  seen.Note(1, 1);
  seen.Note(2, 1);
  seen.Note(1, 2);
  seen.Note(3, 1);
  EXPECT_EQ(seen.NewestAttempt(2), 0u);
  EXPECT_EQ(seen.NewestAttempt(1), 2u);
  EXPECT_EQ(seen.Unsaved().size(), 2u);
}

}  // namespace

}  // namespace strata::server
