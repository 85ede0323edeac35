#include "compare/virtual_time/task_reply.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::compare {
namespace {

using proto::TaskReply;

std::string Refusal(const std::string& line, TaskReply::WhatCase what) {
  const absl::Status status = ParseTaskReply(line, what).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(status.message());
}

std::string Described(const std::string& tensors, const std::string& more = "\"batch\":32") {
  return absl::StrCat(R"({"described":{"version":1,"steps_per_epoch":5,"total_steps":9,)", more,
                      R"(,"tensors":[)", tensors, "]}}");
}

TEST(TaskReply, IsReadWithAllThatItSays) {
  const auto reply = ParseTaskReply(Described(R"({"name":"w","shape":[2,3]},{"name":"b"})"),
                                    TaskReply::kDescribed);
  ASSERT_EQ(reply.status(), absl::OkStatus());
  const proto::TaskDescription& task = reply->described();
  ASSERT_EQ(task.tensors_size(), 2);
  EXPECT_EQ(task.tensors(0).name(), "w");
  EXPECT_EQ(task.tensors(0).shape(1), 3u);
  EXPECT_EQ(task.total_steps(), 9u);
  const auto computed =
      ParseTaskReply(R"({"computed":{"samples":7,"loss":"NaN"}})", TaskReply::kComputed);
  ASSERT_EQ(computed.status(), absl::OkStatus());
  EXPECT_NE(computed->computed().loss(), computed->computed().loss());
}

TEST(TaskReply, AFailureIsItsText) {
  EXPECT_EQ(Refusal(R"j({"failed":"ValueError: x (a.py:3)"})j", TaskReply::kComputed),
            "ValueError: x (a.py:3)");
  EXPECT_EQ(Refusal(R"({"failed":""})", TaskReply::kComputed), "the task says no reason");
}

TEST(TaskReply, WhatIsNoAnswerIsRefused) {
  for (const char* line : {"", "{", "3", R"({"nothing":{}})", R"({"computed":{"loss":"x"}})"}) {
    EXPECT_EQ(Refusal(line, TaskReply::kComputed).substr(0, 27), "the task's answer is none: ")
        << line;
  }
  EXPECT_EQ(Refusal("{}", TaskReply::kComputed), "the task answers nothing, not computed");
  EXPECT_EQ(Refusal(R"({"attached":{}})", TaskReply::kComputed),
            "the task answers attached, not computed");
}

TEST(TaskReply, NumbersThatCannotBeAreNamed) {
  EXPECT_EQ(Refusal(R"({"computed":{"samples":0}})", TaskReply::kComputed),
            "samples: 0, must be from 1 to 65536");
  const std::string w = R"({"name":"w","shape":[2]})";
  EXPECT_EQ(Refusal(Described(""), TaskReply::kDescribed), "params: there are none");
  EXPECT_EQ(Refusal(Described(absl::StrCat(w, ",", w)), TaskReply::kDescribed),
            "params: \"w\" is there twice");
  EXPECT_EQ(Refusal(Described(R"({"name":"w","shape":[2,0]})"), TaskReply::kDescribed),
            "params: \"w\": has no or too many elements");
  EXPECT_EQ(Refusal(Described(R"({"name":"w","shape":[65536,65536]})"), TaskReply::kDescribed),
            "params: \"w\": has no or too many elements");
  EXPECT_EQ(Refusal(Described(R"({"name":"w","shape":[2147483648]},{"name":"b"})"),
                    TaskReply::kDescribed),
            "params: more than 2147483648 elements in all");
  EXPECT_EQ(Refusal(Described(w, R"("batch":0)"), TaskReply::kDescribed),
            "batch: 0, must be from 1 to 65536");
  EXPECT_EQ(Refusal(Described(w, R"("batch":1,"rate":-1)"), TaskReply::kDescribed),
            "optimizer: lr: -1, must be at least 0");
  EXPECT_EQ(Refusal(Described(w, R"("batch":1,"rate":"NaN")"), TaskReply::kDescribed),
            "optimizer: lr: nan, must be at least 0");
  EXPECT_EQ(
      Refusal(R"({"described":{"version":2}})", TaskReply::kDescribed),
      "this strata serves tasks of version 1, the package strata of the script has version 2");
  EXPECT_EQ(Refusal(R"({"measured":{"values":{"a b":1}}})", TaskReply::kMeasured),
            "evaluate: \"a b\": a name has 1 to 64 letters, digits and characters of ._-/");
}

}  // namespace
}  // namespace strata::compare
