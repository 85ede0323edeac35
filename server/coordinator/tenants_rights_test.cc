// What a user's calls tell of others, what is left of a user's jobs once their rights are gone, and
// what is written down of what was refused.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/tenants_fixture.h"
#include "server/coordinator/testing/fake_daemon.h"

namespace strata::server {
namespace {

using keys::Role;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TenantsRightsTest : public TenantsTest {
 protected:
  proto::ListNodesReply NodesOf(const std::string& user) const {
    const auto nodes = As(user)->ListNodes();
    EXPECT_TRUE(nodes.ok()) << nodes.status();
    return nodes.value_or(proto::ListNodesReply());
  }
  static uint64_t CountOf(const proto::ListNodesReply& nodes, const std::string& cause) {
    for (const proto::Refusal& refusal : nodes.coordinator().refusals()) {
      if (refusal.cause() == cause) return refusal.count();
    }
    return 0;
  }
  // Waits for the job's reason to have the text.
  bool SaysWhy(JobId job, const std::string& text) const {
    for (const absl::Time end = absl::Now() + absl::Seconds(20); absl::Now() < end;) {
      if (Own()->GetJob(job)->reason() == text) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    ADD_FAILURE() << Own()->GetJob(job)->reason();
    return false;
  }
  bool StartsNow(JobId job) const {
    for (const absl::Time end = absl::Now() + absl::Seconds(20); absl::Now() < end;) {
      if (Own()->GetJob(job)->state() == proto::RUNNING) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }
};

TEST_F(TenantsRightsTest, NoCounterTellsAHiddenJobFromOneThatIsNotThere) {
  const JobId job = Submitted("sam");
  const auto rex = As("rex");
  const auto counted = [&](JobId asked) {
    const auto before = CountOf(NodesOf("otto"), "against the policy");
    const std::string seen = NodesOf("rex").coordinator().SerializeAsString();
    EXPECT_TRUE(absl::IsNotFound(rex->GetJob(asked).status()));
    EXPECT_EQ(NodesOf("rex").coordinator().SerializeAsString(), seen);
    return CountOf(NodesOf("otto"), "against the policy") - before;
  };
  EXPECT_EQ(counted(job), 1u);
  EXPECT_EQ(counted(JobId(4242)), 1u);
  EXPECT_THAT(AuditLines(), AllOf(HasSubstr(R"("outcome":"refused","detail":"no job 1")"),
                                  HasSubstr(R"("outcome":"refused","detail":"no job 4242")")));
  const auto before = CountOf(NodesOf("otto"), "against the policy");
  EXPECT_TRUE(absl::IsNotFound(As("otto")->GetJob(JobId(4242)).status()));
  EXPECT_EQ(CountOf(NodesOf("otto"), "against the policy"), before) << "a typing error";
}

TEST_F(TenantsRightsTest, WhatAllUsersAddUpToIsForWhoMaySeeAll) {
  FakeDaemon worker(OwnAddress(), FakeDaemon::Worker("w1", 1));
  ASSERT_EQ(worker.Start(), absl::OkStatus());
  EXPECT_FALSE(As("rex")->GetJob(JobId(4242)).ok());  // the coordinator has refused something
  proto::DaemonMessage message;
  proto::Resource* memory = message.mutable_heartbeat()->add_resources();
  memory->set_name("promised memory bytes");
  memory->set_used(7);
  proto::Refusal* refusal = message.mutable_heartbeat()->add_refusals();
  refusal->set_cause("unknown job");
  refusal->set_count(7);
  const auto has_said = [&] { return !NodesOf("otto").daemons(0).refusals().empty(); };
  // What a user sees while the worker's newest heartbeat is this one; the next says nothing.
  const auto seen_by = [&](const std::string& user) {
    for (int i = 0; i < 100; ++i) {
      worker.Send(message);
      if (!has_said()) continue;
      const proto::ListNodesReply nodes = NodesOf(user);
      if (has_said()) return nodes;
    }
    ADD_FAILURE() << "no heartbeat has come";
    return NodesOf(user);
  };
  for (const char* user : {"otto", "ada"}) {
    const proto::ListNodesReply nodes = seen_by(user);
    EXPECT_FALSE(nodes.daemons(0).resources().empty()) << user;
    EXPECT_FALSE(nodes.coordinator().resources().empty()) << user;
    EXPECT_FALSE(nodes.coordinator().refusals().empty()) << user;
  }
  for (const char* user : {"vera", "sam", "rex"}) {
    const proto::ListNodesReply nodes = seen_by(user);
    EXPECT_EQ(nodes.daemons(0).slots(), 1u) << user;
    EXPECT_TRUE(nodes.daemons(0).resources().empty()) << user;
    EXPECT_TRUE(nodes.daemons(0).refusals().empty()) << user;
    EXPECT_TRUE(nodes.coordinator().resources().empty()) << user;
    EXPECT_TRUE(nodes.coordinator().refusals().empty()) << user;
  }
}

TEST_F(TenantsRightsTest, AJobOfWhoMayNoLongerSubmitItWaitsAndStartsOnceTheyMay) {
  const JobId job = Submitted("rex", Program());
  const std::string rex = R"("rex" namespace: "speech" role: )";
  const auto make = [&](const std::string& role) {
    WritePolicy(absl::StrReplaceAll(kPolicy, {{rex + "RUN_PROGRAMS", rex + role}}));
  };
  make("NONE");
  ASSERT_TRUE(SaysWhy(job, "waits: its owner rex may run nothing here any more"));
  FakeDaemon worker(OwnAddress(), FakeDaemon::Worker("w1", 8));
  ASSERT_EQ(worker.Start(), absl::OkStatus());
  const JobId ones = Submitted("one", Program());
  EXPECT_TRUE(StartsNow(ones)) << "it holds nobody up";
  make("SUBMIT");
  EXPECT_TRUE(SaysWhy(job, "waits: its owner rex may run no programs here any more"));
  EXPECT_EQ(Own()->GetJob(job)->state(), proto::QUEUED);
  make("RUN_PROGRAMS");
  EXPECT_TRUE(StartsNow(job));
}

TEST_F(TenantsRightsTest, AJobOfWhoseKeysWereRevokedWaits) {
  const JobId job = Submitted("rex", Program());
  proto::RevokeRequest revoke;
  revoke.set_name("rex");
  revoke.set_role("user");
  ASSERT_TRUE(control::Revoke(KeysAs("ada"), revoke).ok());
  ASSERT_TRUE(SaysWhy(job, "waits: the keys of its owner rex were revoked"));
  FakeDaemon worker(OwnAddress(), FakeDaemon::Worker("w1", 8));
  ASSERT_EQ(worker.Start(), absl::OkStatus());
  EXPECT_TRUE(StartsNow(Submitted("one", Program())));
  EXPECT_EQ(Own()->GetJob(job)->state(), proto::QUEUED);
}

TEST_F(TenantsRightsTest, WhatWasAskedForInVainIsWrittenDown) {
  proto::Job job = Model();
  job.set_exchange(proto::Job::MPI);
  EXPECT_TRUE(absl::IsInvalidArgument(As("sam")->Submit(job).status()));
  EXPECT_FALSE(control::MakeToken(KeysAs("ada"), {}).ok());
  proto::RevokeRequest revoke;
  revoke.set_name("nobody");
  EXPECT_FALSE(control::Revoke(KeysAs("ada"), revoke).ok());
  FakeDaemon nameless(OwnAddress(), FakeDaemon::Worker("", 1));
  EXPECT_FALSE(nameless.Start().ok());
  const std::string audit = AuditLines();
  for (const char* what : {"submit", "make-token", "revoke", "register"}) {
    EXPECT_THAT(
        audit, HasSubstr(absl::StrCat(R"("what":")", what, R"(","outcome":"refused","detail":")")));
  }
}

TEST_F(TenantsRightsTest, AFollowerWhoseKeysAreRevokedIsRefusedInWriting) {
  const JobId job = Submitted("sam");
  const auto vera = As("vera");
  const absl::Status ended = Ended(vera.get(), [&] {
    const auto on_event = [&](const proto::FollowEvent&) {
      proto::RevokeRequest revoke;
      revoke.set_name("vera");
      revoke.set_role("user");
      EXPECT_TRUE(control::Revoke(KeysAs("ada"), revoke).ok());
    };
    return vera->Follow(job, on_event).status();
  });
  EXPECT_TRUE(absl::IsPermissionDenied(ended)) << ended;
  EXPECT_THAT(AuditLines(), HasSubstr(R"("what":"follow","job":1,"outcome":"refused")"));
}

}  // namespace
}  // namespace strata::server
