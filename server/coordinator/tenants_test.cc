// Rights of users to each other's jobs: a coordinator with a policy, over real TLS.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/keys/join_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/tenants_fixture.h"
#include "server/testing/fake_daemon.h"

namespace strata::server {
namespace {

using keys::Role;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(TenantsTest, AJobOfAnotherNamespaceReadsExactlyAsOneThatIsNotThere) {
  const JobId job = Submitted("sam"), nowhere(4242);
  const auto rex = As("rex");
  const std::vector<absl::Status> hidden = AnswersAbout(rex.get(), job);
  const std::vector<absl::Status> absent = AnswersAbout(rex.get(), nowhere);
  for (size_t i = 0; i < hidden.size(); ++i) {
    EXPECT_TRUE(absl::IsNotFound(hidden[i])) << hidden[i];
    EXPECT_EQ(hidden[i].message(),
              absl::StrReplaceAll(absent[i].message(), {{"4242", absl::StrCat(job.value())}}));
  }
  EXPECT_THAT(JobsOf("rex"), IsEmpty());
  EXPECT_EQ(Own()->GetJob(job)->state(), proto::QUEUED) << "it was not cancelled";
  EXPECT_THAT(AuditLines(), HasSubstr(R"("who":"user rex")"));
}

TEST_F(TenantsTest, AJobGoesOnFromNoneOfAnotherNamespace) {
  proto::Job job = Model();
  job.mutable_checkpoint()->set_dir(dir_ + "/checkpoints");
  job.mutable_checkpoint()->set_every_steps(1);
  const JobId sams = Submitted("sam", job);
  const auto resume = [&](const std::string& user, uint32_t from) {
    proto::ResumeFrom resume;
    resume.set_job_id(from);
    return As(user)->Submit(Model(), resume).status();
  };
  const absl::Status hidden = resume("rex", sams.value()), absent = resume("rex", 4242);
  EXPECT_TRUE(absl::IsInvalidArgument(hidden)) << hidden;
  EXPECT_EQ(hidden.message(),
            absl::StrReplaceAll(absent.message(), {{"4242", absl::StrCat(sams.value())}}));
  EXPECT_EQ(resume("sue", sams.value()), absl::OkStatus());
  // Nor does an error reveal who writes to a folder.
  const absl::Status taken = As("rex")->Submit(job).status();
  EXPECT_TRUE(absl::IsInvalidArgument(taken)) << taken;
  EXPECT_THAT(std::string(taken.message()),
              AllOf(HasSubstr("another job writes to"), Not(HasSubstr("job 1"))));
}

TEST_F(TenantsTest, OneSeesTheJobsOfTheNamespaceAndCancelsOnesOwn) {
  const JobId sams = Submitted("sam"), rexs = Submitted("rex");
  const JobId own = *Own()->Submit(Model());
  EXPECT_THAT(JobsOf("sam"), ElementsAre(sams.value()));
  EXPECT_THAT(JobsOf("vera"), ElementsAre(sams.value()));
  EXPECT_THAT(JobsOf("rex"), ElementsAre(rexs.value()));
  EXPECT_THAT(JobsOf("one"), ElementsAre(own.value())) << "of the default namespace";
  EXPECT_THAT(JobsOf("otto"), ElementsAre(sams.value(), rexs.value(), own.value()));
  for (const char* user : {"sue", "vera"}) {
    const absl::Status may = As(user)->Cancel(sams);
    EXPECT_TRUE(absl::IsPermissionDenied(may)) << user << may;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(As("one")->Cancel(own)));
  EXPECT_EQ(As("sam")->Cancel(sams), absl::OkStatus());
  EXPECT_EQ(As("otto")->Cancel(rexs), absl::OkStatus());
  EXPECT_EQ(Own()->GetJob(sams)->state(), proto::CANCELLED);
}

TEST_F(TenantsTest, AnOwnerIsWhoHasSubmittedAndStaysSo) {
  const JobId sams = Submitted("sam");
  const JobId own = *Own()->Submit(Model());
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto status = Own()->GetJob(sams);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->owner(), "sam");
  EXPECT_EQ(status->tenant(), "vision");
  EXPECT_EQ(Own()->GetJob(own)->owner(), "");
  EXPECT_TRUE(absl::IsNotFound(As("rex")->GetJob(sams).status()));
}

TEST_F(TenantsTest, RolesDecideWhatIsSubmitted) {
  const auto refused = [&](const std::string& user, const proto::Job& job) {
    const absl::Status status = As(user)->Submit(job).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused("vera", Model()), HasSubstr("user vera may not submit jobs"));
  EXPECT_THAT(refused("sam", Program()), HasSubstr("user sam may not submit jobs with programs"));
  EXPECT_THAT(refused("eve", Model()), HasSubstr("user eve may do nothing here"));
  EXPECT_TRUE(absl::IsPermissionDenied(As("eve")->ListJobs().status()));
  Submitted("rex", Program());
  EXPECT_THAT(AuditLines(), AllOf(HasSubstr(R"("who":"user eve")"), HasSubstr("programs: their")));
}

TEST_F(TenantsTest, PathsAndRanksStayWithinWhatThePolicySays) {
  const auto refused = [&](const proto::Job& job) {
    const absl::Status status = As("one")->Submit(job).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    return std::string(status.message());
  };
  proto::Job job = Program();
  for (const char* path : {"/data/two", "/data/one/../two", "mine"}) {
    job.set_run_dir(path);
    EXPECT_THAT(refused(job), HasSubstr(absl::StrCat("run_dir: \"", path, "\"")));
  }
  job = Program();
  job.set_ranks(2);
  EXPECT_THAT(refused(job), HasSubstr("may have 1 rank at once"));
}

TEST_F(TenantsTest, WhatIsBeyondItsBoundIsRefusedByTheNameOfTheFieldAndNothingStandsStill) {
  const auto refused = [&](const std::string& user, const proto::Job& job,
                           const proto::ResumeFrom& resume = {}) {
    const absl::Status status = As(user)->Submit(job, resume).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  proto::Job job = Model();
  job.set_run_dir(std::string(40'000'000, 'a'));
  EXPECT_EQ(refused("sam", job), "job.run_dir has 40000000 bytes, at most 4096 are possible");
  job = Model();
  job.set_run_dir(std::string("a\0b", 3));
  EXPECT_EQ(refused("sam", job), "job.run_dir has a NUL byte");
  job = Model();
  proto::ResumeFrom resume;
  resume.set_dir(std::string(5000, 'r'));
  EXPECT_EQ(refused("sam", job, resume), "resume.dir has 5000 bytes, at most 4096 are possible");
  // A million empty messages are not even parsed.
  for (int i = 0; i < 1'000'000; ++i) job.mutable_debug()->add_delays();
  EXPECT_THAT(refused("sam", job), HasSubstr("job.debug.delays has "));
  job = Program();
  job.mutable_program()->add_args(std::string(20'000'000, 'b'));
  EXPECT_THAT(refused("rex", job), HasSubstr("job.program.args has 20000000 of the "));
  job = Program();
  for (int i = 0; i < 300'000; ++i) job.mutable_program()->add_env("A=1");
  EXPECT_THAT(refused("rex", job), HasSubstr("job.program.env has "));
  EXPECT_TRUE(JobsOf("otto").empty());
  proto::DrainRequest drain;
  drain.set_daemon(std::string(300, 'd'));
  EXPECT_EQ(As("ada")->Drain(drain).status().message(),
            "daemon has 300 bytes, at most 256 are possible");
}

TEST_F(TenantsTest, AListThatIsLargerThanAPageComesWhole) {
  proto::Job job = Program();
  job.mutable_program()->add_args(std::string(100 << 10, 'x'));
  std::vector<uint32_t> ids;
  for (int i = 0; i < 45; ++i) ids.push_back(Submitted("rex", job).value());
  EXPECT_EQ(JobsOf("rex"), ids);
  EXPECT_TRUE(JobsOf("sam").empty()) << "they are of another namespace";
}

TEST_F(TenantsTest, AJobWaitsForItsOwnersOthersAndHoldsNobodyUp) {
  FakeDaemon worker(OwnAddress(), FakeDaemon::Worker("w1", 8));
  ASSERT_EQ(worker.Start(), absl::OkStatus());
  const JobId first = Submitted("one", Program()), second = Submitted("one", Program());
  const JobId rexs = Submitted("rex", Program());
  const auto state = [&](JobId job) { return Own()->GetJob(job)->state(); };
  EXPECT_EQ(state(first), proto::RUNNING);
  EXPECT_EQ(state(rexs), proto::RUNNING);
  const auto waits = As("one")->GetJob(second);
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->state(), proto::QUEUED);
  EXPECT_EQ(waits->reason(),
            "waits: user one may have 1 rank at once, running jobs have 1, and this job needs 1");
  EXPECT_EQ(As("one")->Cancel(first), absl::OkStatus());
  EXPECT_EQ(state(second), proto::RUNNING);
}

TEST_F(TenantsTest, NeitherNodesNorReasonsTellOfJobsOfOtherNamespaces) {
  FakeDaemon worker(OwnAddress(), FakeDaemon::Worker("w1", 1));
  ASSERT_EQ(worker.Start(), absl::OkStatus());
  const JobId rexs = Submitted("rex", Program());
  const JobId first = Submitted("sam"), second = Submitted("sam");
  const auto jobs = [&](const std::string& user) {
    const auto nodes = As(user)->ListNodes();
    EXPECT_TRUE(nodes.ok()) << nodes.status();
    EXPECT_EQ(nodes->daemons(0).name(), "w1");
    EXPECT_EQ(nodes->daemons(0).slots_used(), 1u);
    return std::vector<uint32_t>(nodes->daemons(0).jobs().begin(), nodes->daemons(0).jobs().end());
  };
  EXPECT_THAT(jobs("sam"), IsEmpty());
  EXPECT_THAT(jobs("rex"), ElementsAre(rexs.value()));
  EXPECT_THAT(jobs("otto"), ElementsAre(rexs.value()));
  EXPECT_THAT(As("sam")->GetJob(first)->reason(),
              AllOf(HasSubstr("a job of another namespace holds 1"), Not(HasSubstr("job 1"))));
  EXPECT_EQ(As("sam")->GetJob(second)->reason(), absl::StrCat("waits behind job ", first.value()));
}

TEST_F(TenantsTest, AnAdminRulesOverKeysAndNobodyBelow) {
  proto::MakeTokenRequest request;
  request.add_roles("worker");
  request.set_ttl_s(60);
  request.set_uses(1);
  const auto token = control::MakeToken(KeysAs("ada"), request);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(control::ListKeys(KeysAs("ada")).ok());
  for (const char* user : {"otto", "rex", "sam", "vera", "eve"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(control::MakeToken(KeysAs(user), request).status()))
        << user;
    EXPECT_TRUE(absl::IsPermissionDenied(control::ListKeys(KeysAs(user)).status())) << user;
    EXPECT_TRUE(absl::IsPermissionDenied(control::Revoke(KeysAs(user), {}).status())) << user;
  }
  const keys::JoinToken parsed = *keys::ParseJoinToken(*token);
  ASSERT_TRUE(control::Join(KeysAs("ada"), parsed, Role::kWorker, "w1").ok());
  proto::RevokeRequest revoke;
  revoke.set_name("w1");
  EXPECT_TRUE(control::Revoke(KeysAs("ada"), revoke).ok());
  const std::string audit = AuditLines();
  EXPECT_THAT(audit,
              HasSubstr(R"("what":"make-token","outcome":"done","detail":"for worker, 1 use)"));
  EXPECT_THAT(audit, HasSubstr(R"("what":"join","outcome":"done","detail":"worker w1")"));
  EXPECT_THAT(audit, HasSubstr(R"("what":"revoke","outcome":"done","detail":"worker w1")"));
  EXPECT_THAT(audit, Not(HasSubstr(*token)));
  EXPECT_THAT(audit, Not(HasSubstr(token->substr(token->rfind('.') + 1)))) << "the secret";
}

TEST_F(TenantsTest, WhatATokenSaysOfAUserCountsUnlessThePolicyListsThem) {
  const auto join = [&](const std::string& user, proto::UserPolicy::Role role) {
    proto::MakeTokenRequest request;
    request.add_roles("user");
    request.set_name(user);
    request.set_ttl_s(60);
    request.set_uses(1);
    request.mutable_grant()->set_role(role);
    request.mutable_grant()->set_namespace_("vision");
    const auto token = control::MakeToken({.coordinator = OwnAddress()}, request);
    ASSERT_TRUE(token.ok()) << token.status();
    ASSERT_TRUE(
        control::Join(KeysAs("ada"), *keys::ParseJoinToken(*token), Role::kUser, user).ok());
  };
  join("new", proto::UserPolicy::SUBMIT);
  join("vera", proto::UserPolicy::ADMIN);
  ASSERT_NO_FATAL_FAILURE(Start());
  const JobId job = Submitted("new");
  const auto status = Own()->GetJob(job);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->tenant(), "vision");
  EXPECT_TRUE(absl::IsPermissionDenied(As("new")->Submit(Program()).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(control::ListKeys(KeysAs("vera")).status()));
  const auto listed = control::ListKeys({.coordinator = OwnAddress()});
  ASSERT_TRUE(listed.ok()) << listed.status();
  for (const proto::IssuedKey& key : listed->keys()) {
    EXPECT_EQ(key.grant().role(),
              key.name() == "new" ? proto::UserPolicy::SUBMIT : proto::UserPolicy::VIEW);
  }
}

TEST_F(TenantsTest, WhoLosesTheirRightsFollowsNoLonger) {
  const JobId job = Submitted("sam");
  const auto vera = As("vera");
  bool has_begun = false;
  const absl::Status ended = Ended(vera.get(), [&] {
    const auto on_event = [&](const proto::FollowEvent&) {
      if (std::exchange(has_begun, true)) return;
      WritePolicy(absl::StrReplaceAll(
          kPolicy, {{R"("vera" namespace: "vision")", R"("vera" namespace: "speech")"}}));
    };
    return vera->Follow(job, on_event).status();
  });
  EXPECT_TRUE(has_begun);
  EXPECT_TRUE(absl::IsNotFound(ended)) << ended;
}

TEST_F(TenantsTest, APolicyThatIsWrongKeepsTheCoordinatorFromStarting) {
  WritePolicy("users { name: 'sam'\n rol: VIEW }");
  coordinator_.reset();
  Coordinator::Options options;
  options.listen = "127.0.0.1:0";
  options.state_dir = State();
  const absl::Status started = (*Coordinator::Create(options))->Start();
  EXPECT_TRUE(absl::IsInvalidArgument(started)) << started;
  EXPECT_THAT(std::string(started.message()), HasSubstr(State() + "/policy.textproto:2:"));
}

TEST_F(TenantsTest, WhereNobodyShowsWhoTheyAreAPolicyIsRefused) {
  Coordinator::Options options;
  options.listen = "127.0.0.1:0";
  options.state_dir = dir_ + "/other";
  options.insecure = true;
  options.policy_file = State() + "/policy.textproto";
  const absl::Status started = (*Coordinator::Create(options))->Start();
  EXPECT_TRUE(absl::IsFailedPrecondition(started)) << started;
  EXPECT_THAT(std::string(started.message()), HasSubstr(options.policy_file));
}

TEST_F(TenantsTest, WithoutAPolicyUsersRunProgramsAndCancelTheirOwnJobs) {
  std::filesystem::remove(State() + "/policy.textproto");
  ASSERT_NO_FATAL_FAILURE(Start());
  const JobId sams = Submitted("sam", Program());
  EXPECT_THAT(JobsOf("rex"), ElementsAre(sams.value()));
  EXPECT_TRUE(absl::IsPermissionDenied(As("rex")->Cancel(sams)));
  EXPECT_EQ(As("sam")->Cancel(sams), absl::OkStatus());
}

// ---- what calls reveal of others, jobs of users without rights, the audit log ----

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
  // Waits until the job's reason contains the text.
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
  // Returns what a user sees after this heartbeat of the worker; the next one is empty.
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
