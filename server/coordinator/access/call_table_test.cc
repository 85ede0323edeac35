// The access table, cell by cell.
#include "server/coordinator/access/call_table.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/keys.pb.h"
#include "proto/logs.pb.h"

namespace strata::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using keys::Role;
using proto::UserPolicy;
using ::testing::HasSubstr;

Caller Member(Role role, const std::string& name = "n") {
  return {Caller::Kind::kMember, {"test", role, name}, absl::UnixEpoch()};
}
Caller User(UserRole role, const std::string& tenant = "vision") {
  Caller user = Member(Role::kUser, "ada");
  user.rights = {role, tenant};
  return user;
}
const Caller kOwner{.kind = Caller::Kind::kOwner};

constexpr std::pair<const char*, Call> kCalls[] = {{"Session", Call::kSession},
                                                   {"Submit", Call::kSubmit},
                                                   {"Submit", Call::kSubmitProgram},
                                                   {"Cancel", Call::kCancel},
                                                   {"ListJobs", Call::kListJobs},
                                                   {"GetJob", Call::kGetJob},
                                                   {"ListNodes", Call::kListNodes},
                                                   {"Follow", Call::kFollow},
                                                   {"GetTrace", Call::kGetTrace},
                                                   {"Offer", Call::kOfferLogs},
                                                   {"Read", Call::kReadLogs},
                                                   {"Drain", Call::kDrain},
                                                   {"Join", Call::kJoin},
                                                   {"Renew", Call::kRenew},
                                                   {"MakeToken", Call::kMakeToken},
                                                   {"ListKeys", Call::kListKeys},
                                                   {"Revoke", Call::kRevoke}};

char Letter(Verdict verdict) {
  switch (verdict) {
    case Verdict::kYes:
      return 'y';
    case Verdict::kNo:
      return '.';
    case Verdict::kStranger:
      return 's';
    case Verdict::kHidden:
      return 'h';
  }
  return '?';
}

// A caller's cells for one call: about no job, about a job of their own, another user's of the same
// namespace, one of their own in another namespace, another user's in another namespace.
std::string Cells(const Caller& caller, Call call) {
  std::string cells(1, Letter(Decide(caller, call, std::nullopt)));
  for (const auto& [own, same] : {std::pair(true, true), std::pair(false, true),
                                  std::pair(true, false), std::pair(false, false)}) {
    cells += Letter(Decide(caller, call, JobSide{.own = own, .same_namespace = same}));
  }
  return cells;
}

// In the order of kCalls. Each column is a caller; a cell is as of Cells.
struct TableRow {
  const char* call;
  const char *stranger, *daemon, *coordinator, *none, *view, *submit, *run, *operate, *admin;
};
constexpr TableRow kTable[] = {
    // clang-format off
    //               strang.  daemon  coord.  NONE    VIEW    SUBMIT  RUN_P.  OPERATE ADMIN
    {"session",       "sssss","yyyyy",".....",".....",".....",".....",".....",".....","....."},
    {"submit",        "sssss",".....",".....",".....","...hh","yyyhh","yyyhh","yyyyy","yyyyy"},
    {"submit-program","sssss",".....",".....",".....","...hh","...hh","yyyhh","yyyyy","yyyyy"},
    {"cancel",        "sssss",".....",".....",".....","...hh","yy.hh","yy.hh","yyyyy","yyyyy"},
    {"list-jobs",     "sssss",".....",".....",".....","yyyhh","yyyhh","yyyhh","yyyyy","yyyyy"},
    {"get-job",       "sssss",".....",".....",".....","yyyhh","yyyhh","yyyhh","yyyyy","yyyyy"},
    {"list-nodes",    "sssss",".....",".....",".....","yyyhh","yyyhh","yyyhh","yyyyy","yyyyy"},
    {"follow",        "sssss",".....",".....",".....","yyyhh","yyyhh","yyyhh","yyyyy","yyyyy"},
    {"get-trace",     "sssss",".....",".....",".....","yyyhh","yyyhh","yyyhh","yyyyy","yyyyy"},
    {"offer-logs",    "sssss","yyyyy",".....",".....",".....",".....",".....",".....","....."},
    {"read-logs",     "sssss",".....",".....",".....","...hh","yy.hh","yy.hh","yyyyy","yyyyy"},
    {"drain",         "sssss",".....",".....",".....","...hh","...hh","...hh","yyyyy","yyyyy"},
    {"join",          "yyyyy","yyyyy","yyyyy","yyyyy","yyyyy","yyyyy","yyyyy","yyyyy","yyyyy"},
    {"renew",         "sssss","yyyyy",".....","yyyyy","yyyyy","yyyyy","yyyyy","yyyyy","yyyyy"},
    {"make-token",    "sssss",".....",".....",".....","...hh","...hh","...hh",".....","yyyyy"},
    {"list-keys",     "sssss",".....",".....",".....","...hh","...hh","...hh",".....","yyyyy"},
    {"revoke",        "sssss",".....",".....",".....","...hh","...hh","...hh",".....","yyyyy"},
    // clang-format on
};

TEST(CallTable, EveryCellIsWhatTheTableSays) {
  ASSERT_EQ(std::size(kTable), std::size(kCalls));
  for (size_t i = 0; i < std::size(kCalls); ++i) {
    const Call call = kCalls[i].second;
    const TableRow& row = kTable[i];
    EXPECT_EQ(CallName(call), row.call);
    SCOPED_TRACE(row.call);
    EXPECT_EQ(Cells(Caller(), call), row.stranger);
    EXPECT_EQ(Cells(Member(Role::kWorker), call), row.daemon);
    EXPECT_EQ(Cells(Member(Role::kServer), call), row.daemon);
    EXPECT_EQ(Cells(Member(Role::kCoordinator), call), row.coordinator);
    EXPECT_EQ(Cells(User(UserPolicy::NONE), call), row.none);
    EXPECT_EQ(Cells(User(UserPolicy::VIEW), call), row.view);
    EXPECT_EQ(Cells(User(UserPolicy::SUBMIT), call), row.submit);
    EXPECT_EQ(Cells(User(UserPolicy::RUN_PROGRAMS), call), row.run);
    EXPECT_EQ(Cells(User(UserPolicy::OPERATE), call), row.operate);
    EXPECT_EQ(Cells(User(UserPolicy::ADMIN), call), row.admin);
    EXPECT_EQ(Cells(kOwner, call), "yyyyy");
  }
}

TEST(CallTable, EveryCallOfAllServicesHasARowAndEveryRoleAColumn) {
  std::set<std::string> rows, calls;
  for (const auto& [name, call] : kCalls) rows.insert(name);
  for (const auto* file :
       {proto::SubmitRequest::descriptor()->file(), proto::JoinRequest::descriptor()->file(),
        proto::ReadLogs::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        calls.insert(file->service(i)->method(k)->name());
      }
    }
  }
  EXPECT_EQ(rows, calls);
  EXPECT_EQ(UserPolicy::Role_descriptor()->value_count(), 6);
}

TEST(CallTable, AUserThatNobodyGaveARoleMayDoNothing) {
  const absl::Status may = Allow(Member(Role::kUser, "ada"), Call::kListJobs);
  EXPECT_TRUE(absl::IsPermissionDenied(may)) << may;
  EXPECT_THAT(may.message(), HasSubstr("user ada may do nothing here"));
}

TEST(CallTable, WhatIsRefusedSaysWhoWhatAndTheirRole) {
  EXPECT_EQ(Allow(User(UserPolicy::VIEW), Call::kSubmit).message(),
            "user ada may not submit jobs: their role is VIEW");
  EXPECT_EQ(Allow(User(UserPolicy::SUBMIT), Call::kSubmitProgram).message(),
            "user ada may not submit jobs with programs: their role is SUBMIT");
  EXPECT_EQ(AllowJob(User(UserPolicy::SUBMIT), Call::kCancel, JobId(7), {"bob", "vision"}),
            absl::PermissionDeniedError("user ada may not cancel this job: their role is SUBMIT, "
                                        "and job 7 is not their own"));
  EXPECT_TRUE(absl::IsUnauthenticated(Allow(Caller(), Call::kListJobs)));
}

TEST(CallTable, WhoHasKeysOfTheWrongRoleIsToldWhichOnesToUse) {
  EXPECT_EQ(Allow(Member(Role::kWorker, "w1"), Call::kListJobs).message(),
            "worker w1 may not look at jobs: use a user's keys (`strata keys join`)");
  EXPECT_EQ(Allow(User(UserPolicy::ADMIN), Call::kSession).message(),
            "user ada may not be a server or worker: use a daemon's keys (--join-file with a token "
            "of `strata keys token`)");
}

TEST(CallTable, AJobOfAnotherNamespaceReadsAsOneThatIsNotThere) {
  for (const Call call :
       {Call::kCancel, Call::kReadLogs, Call::kGetJob, Call::kFollow, Call::kGetTrace}) {
    for (const UserRole role : {UserPolicy::VIEW, UserPolicy::SUBMIT, UserPolicy::RUN_PROGRAMS}) {
      EXPECT_EQ(AllowJob(User(role), call, JobId(7), {"bob", "speech"}), NoSuchJob(JobId(7)));
      EXPECT_EQ(AllowJob(User(role), call, JobId(7), {"", ""}), NoSuchJob(JobId(7)));
      EXPECT_EQ(AllowJob(User(role, ""), call, JobId(7), {"bob", "vision"}), NoSuchJob(JobId(7)));
    }
    EXPECT_EQ(AllowJob(User(UserPolicy::OPERATE), call, JobId(7), {"bob", "speech"}),
              absl::OkStatus());
    EXPECT_EQ(AllowJob(User(UserPolicy::SUBMIT), call, JobId(7), {"ada", "vision"}),
              absl::OkStatus());
  }
}

TEST(CallTable, AJobThatIsNotThereIsRefusedAsAHiddenOne) {
  for (const Call call :
       {Call::kCancel, Call::kReadLogs, Call::kGetJob, Call::kFollow, Call::kGetTrace}) {
    for (const UserRole role : {UserPolicy::NONE, UserPolicy::VIEW, UserPolicy::RUN_PROGRAMS}) {
      const absl::Status hidden = AllowJob(User(role), call, JobId(7), {"bob", "speech"});
      EXPECT_FALSE(hidden.ok());
      EXPECT_EQ(AllowAbsentJob(User(role), call, JobId(7)), hidden);
    }
    EXPECT_EQ(AllowAbsentJob(User(UserPolicy::OPERATE), call, JobId(7)), absl::OkStatus());
    EXPECT_EQ(AllowAbsentJob(kOwner, call, JobId(7)), absl::OkStatus());
  }
}

TEST(CallTable, NobodyTakesAJobOfTheCoordinatorsUserForTheirOwn) {
  // Everybody in the default namespace sees it; its owner has no name.
  EXPECT_TRUE(absl::IsPermissionDenied(
      AllowJob(User(UserPolicy::RUN_PROGRAMS, ""), Call::kCancel, JobId(7), JobOwner())));
  EXPECT_EQ(AllowJob(User(UserPolicy::VIEW, ""), Call::kGetJob, JobId(7), JobOwner()),
            absl::OkStatus());
}

TEST(CallTable, AnOwnerIsTheCallerAndNobodyElse) {
  EXPECT_EQ(SubmitterOf(User(UserPolicy::SUBMIT)).owner, (JobOwner{"ada", "vision"}));
  EXPECT_FALSE(SubmitterOf(User(UserPolicy::RUN_PROGRAMS)).sees_all);
  EXPECT_TRUE(SubmitterOf(User(UserPolicy::OPERATE)).sees_all);
  EXPECT_EQ(SubmitterOf(kOwner).owner, JobOwner());
  EXPECT_TRUE(SubmitterOf(kOwner).sees_all);
}

proto::Register Registration(proto::Role role, const std::string& name) {
  proto::Register registration;
  registration.set_role(role);
  registration.set_name(name);
  return registration;
}

TEST(AllowRegistration, ACertificateRegistersItsOwnNameAndRoleOnly) {
  const Caller worker = Member(Role::kWorker, "w1"), server = Member(Role::kServer, "s1");
  EXPECT_TRUE(AllowRegistration(worker, Registration(proto::WORKER, "w1")).ok());
  EXPECT_TRUE(AllowRegistration(server, Registration(proto::SERVER, "s1")).ok());
  for (const auto& [caller, registration] :
       {std::pair(worker, Registration(proto::WORKER, "w2")),
        std::pair(worker, Registration(proto::SERVER, "w1")),
        std::pair(worker, Registration(proto::ROLE_UNSPECIFIED, "w1")),
        std::pair(server, Registration(proto::WORKER, "s1")),
        std::pair(User(UserPolicy::ADMIN), Registration(proto::WORKER, "ada")),
        std::pair(Member(Role::kCoordinator, "c"), Registration(proto::SERVER, "c"))}) {
    EXPECT_TRUE(absl::IsPermissionDenied(AllowRegistration(caller, registration)))
        << CallerText(caller);
  }
  EXPECT_EQ(AllowRegistration(worker, Registration(proto::WORKER, "w2")).message(),
            "its certificate is that of worker w1, not of a worker w2: say --name w1, or another "
            "--keys");
  EXPECT_TRUE(AllowRegistration(kOwner, Registration(proto::WORKER, "anything")).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(AllowRegistration({}, Registration(proto::WORKER, "w1"))));
}

TEST(AllowLogsOffer, ACertificateOffersTheLogsOfItsOwnWorkerOnly) {
  EXPECT_TRUE(AllowLogsOffer(Member(Role::kWorker, "w1"), "w1").ok());
  EXPECT_TRUE(AllowLogsOffer(kOwner, "anything").ok());
  EXPECT_EQ(AllowLogsOffer(Member(Role::kWorker, "w1"), "w2"),
            absl::PermissionDeniedError(
                "its certificate is that of worker w1, which shows no logs of a worker w2"));
  EXPECT_TRUE(absl::IsPermissionDenied(AllowLogsOffer(Member(Role::kServer, "w1"), "w1")));
  EXPECT_TRUE(absl::IsPermissionDenied(AllowLogsOffer(User(UserPolicy::ADMIN), "ada")));
  EXPECT_TRUE(absl::IsUnauthenticated(AllowLogsOffer({}, "w1")));
}

Caller SubmissionUser(UserRights rights) {
  return {Caller::Kind::kMember, {"lab", keys::Role::kUser, "ada"}, {}, std::move(rights)};
}
Caller Below(std::vector<std::string> prefixes) {
  return SubmissionUser({UserPolicy::RUN_PROGRAMS, "", 0, std::move(prefixes)});
}
proto::SubmitRequest Model() {
  proto::SubmitRequest request;
  request.mutable_job()->mutable_model()->set_zoo("mlp");
  return request;
}
proto::SubmitRequest Program(const std::string& path) {
  proto::SubmitRequest request;
  request.mutable_job()->mutable_program()->set_path(path);
  return request;
}

TEST(CheckSubmission, ProgramsNeedTheRoleThatIsNamedAfterThem) {
  const auto may = [](UserRole role, const proto::SubmitRequest& request) {
    return CheckSubmission(SubmissionUser({role}), request);
  };
  EXPECT_EQ(may(UserPolicy::SUBMIT, Model()), absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(may(UserPolicy::SUBMIT, Program("/bin/true"))));
  EXPECT_EQ(may(UserPolicy::RUN_PROGRAMS, Program("/bin/true")), absl::OkStatus());
  EXPECT_EQ(CheckSubmission({.kind = Caller::Kind::kOwner}, Program("/bin/true")),
            absl::OkStatus());
}

TEST(CheckSubmission, AJobHasNoMoreRanksThanItsUser) {
  proto::SubmitRequest request = Model();
  request.mutable_job()->set_ranks(4);
  EXPECT_EQ(CheckSubmission(SubmissionUser({UserPolicy::SUBMIT, "", 4}), request),
            absl::OkStatus());
  EXPECT_EQ(CheckSubmission(SubmissionUser({UserPolicy::SUBMIT, "", 0}), request),
            absl::OkStatus());
  EXPECT_EQ(CheckSubmission(SubmissionUser({UserPolicy::SUBMIT, "", 3}), request),
            absl::PermissionDeniedError("ranks: 4, and user ada may have 3 ranks at once"));
}

// Returns requests that each name one path.
std::vector<std::pair<std::string, proto::SubmitRequest>> Naming(const std::string& path) {
  std::vector<std::pair<std::string, proto::SubmitRequest>> all;
  const auto add = [&](const char* field) {
    all.emplace_back(field, Model());
    return &all.back().second;
  };
  add("run_dir")->mutable_job()->set_run_dir(path);
  add("checkpoint.dir")->mutable_job()->mutable_checkpoint()->set_dir(path);
  add("data.idx.dir")->mutable_job()->mutable_data()->mutable_idx()->set_dir(path);
  add("data.cifar10.dir")->mutable_job()->mutable_data()->mutable_cifar10()->set_dir(path);
  add("resume")->mutable_resume()->set_dir(path);
  all.emplace_back("program.path", Program(path));
  return all;
}

TEST(CheckSubmission, EachPathOfAJobLiesBelowAPrefixOfItsUser) {
  const Caller ada = Below({"/data/vision", "s3://weights/vision"});
  for (const char* path :
       {"/data/vision", "/data/vision/a", "/data//vision/./a/", "s3://weights/vision/a"}) {
    for (const auto& [field, request] : Naming(path)) {
      EXPECT_EQ(CheckSubmission(ada, request), absl::OkStatus()) << field;
    }
  }
  for (const char* path :
       {"/data/speech", "/data/visions", "/", "/data/vision/../speech", "/data/vision/..", "mine",
        "../vision", "s3://weights", "s3://weights/vision/../speech", "/s3://weights/vision"}) {
    for (const auto& [field, request] : Naming(path)) {
      const absl::Status may = CheckSubmission(ada, request);
      EXPECT_TRUE(absl::IsPermissionDenied(may)) << field << " " << path;
      EXPECT_THAT(std::string(may.message()), HasSubstr(absl::StrCat(field, ": \"", path, "\"")));
    }
    for (const auto& [field, request] : Naming(path)) {
      EXPECT_EQ(CheckSubmission(Below({}), request), absl::OkStatus()) << field;
    }
  }
}

TEST(CheckSubmission, WhatAJobDoesNotNameIsNotLookedAt) {
  EXPECT_EQ(CheckSubmission(Below({"/data"}), Model()), absl::OkStatus());
}

void CollectTexts(const Descriptor* message, const std::string& path, std::set<std::string>* texts,
                  std::set<const Descriptor*> above = {}) {
  if (!above.insert(message).second) return;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    const std::string name = path + field->name();
    if (field->type() == FieldDescriptor::TYPE_STRING) texts->insert(name);
    if (field->message_type() != nullptr) {
      CollectTexts(field->message_type(), name + ".", texts, above);
    }
  }
}

// A new text field is either a path, and belongs in the checks above, or not.
TEST(CheckSubmission, KnowsOfEachTextOfARequestWhetherItIsAPath) {
  std::set<std::string> texts;
  CollectTexts(proto::SubmitRequest::descriptor(), "", &texts);
  EXPECT_EQ(texts, (std::set<std::string>{
                       // paths
                       "job.run_dir", "job.checkpoint.dir", "job.program.path", "job.data.idx.dir",
                       "job.data.cifar10.dir", "resume.dir",
                       // no paths
                       "job.name", "job.model.zoo", "job.program.args", "job.program.env",
                       "job.consistency.preset", "job.consistency.preset_name",
                       "job.rows.consistency.preset", "job.rows.consistency.preset_name"}));
}

}  // namespace

}  // namespace strata::server
