#include "server/coordinator/access/submission.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using proto::UserPolicy;
using ::testing::HasSubstr;

Caller User(UserRights rights) {
  return {Caller::Kind::kMember, {"lab", keys::Role::kUser, "ada"}, {}, std::move(rights)};
}
Caller Below(std::vector<std::string> prefixes) {
  return User({UserPolicy::RUN_PROGRAMS, "", 0, std::move(prefixes)});
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
    return CheckSubmission(User({role}), request);
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
  EXPECT_EQ(CheckSubmission(User({UserPolicy::SUBMIT, "", 4}), request), absl::OkStatus());
  EXPECT_EQ(CheckSubmission(User({UserPolicy::SUBMIT, "", 0}), request), absl::OkStatus());
  EXPECT_EQ(CheckSubmission(User({UserPolicy::SUBMIT, "", 3}), request),
            absl::PermissionDeniedError("ranks: 4, and user ada may have 3 ranks at once"));
}

// Requests that each name one path.
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

// One that is new is a path, and belongs to the checks above, or it is not.
TEST(CheckSubmission, KnowsOfEachTextOfARequestWhetherItIsAPath) {
  std::set<std::string> texts;
  CollectTexts(proto::SubmitRequest::descriptor(), "", &texts);
  EXPECT_EQ(texts, (std::set<std::string>{// paths
                                          "job.run_dir", "job.checkpoint.dir", "job.program.path",
                                          "job.data.idx.dir", "job.data.cifar10.dir", "resume.dir",
                                          // no paths
                                          "job.name", "job.model.zoo", "job.program.args",
                                          "job.program.env", "job.consistency.preset"}));
}

}  // namespace
}  // namespace strata::server
