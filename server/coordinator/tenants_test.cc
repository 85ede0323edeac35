// What users may do to each other's jobs: a coordinator with a policy, over real TLS.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/keys/join_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/tenants_fixture.h"
#include "server/coordinator/testing/fake_daemon.h"

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
  // Nor is one told who writes to a folder.
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

}  // namespace
}  // namespace strata::server
