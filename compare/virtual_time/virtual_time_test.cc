#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compare/virtual_time/compute_pool.h"
#include "compare/virtual_time/problem.h"
#include "compare/virtual_time/task_reply.h"
#include "gtest/gtest.h"
#include "training/nn/network/zoo.h"

namespace strata::compare {

namespace {

TEST(StepShape, SharesAreThoseOfMultiplications) {
  // 10 x 10 values of one channel: 4 x 8 x 8 x 9 = 2304 multiplications, then 2 x 256 of Relu;
  // 5 x 256 = 1280, and 3 x 5 = 15.
  const training::ModelSpec model{
      .name = "m",
      .input = {1, 10, 10},
      .layers = {{"c", training::Convolution{.outputs = 4, .kernel = 3}},
                 {"r", training::Relu{}},
                 {"f", training::Flatten{}},
                 {"a", training::InnerProduct{.outputs = 5}},
                 {"b", training::InnerProduct{.outputs = 3}}}};
  const auto stages = MakeStages(model);
  ASSERT_EQ(stages.status(), absl::OkStatus());
  ASSERT_EQ(stages->size(), 3u);
  const double forward = 2304 + 512 + 1280 + 15, backward = 2304 + 2 * (512 + 1280 + 15);
  EXPECT_DOUBLE_EQ((*stages)[0].forward, (2304 + 512) / forward);
  EXPECT_DOUBLE_EQ((*stages)[0].backward, (2304 + 2 * 512) / backward);
  EXPECT_DOUBLE_EQ((*stages)[1].forward, 1280 / forward);
  EXPECT_DOUBLE_EQ((*stages)[1].backward, 2 * 1280 / backward);
  EXPECT_DOUBLE_EQ((*stages)[2].backward, 2 * 15 / backward);
  EXPECT_EQ((*stages)[0].first_weight, 0);
  EXPECT_EQ((*stages)[1].first_weight, 2);
  EXPECT_EQ((*stages)[2].weights, 2);
}

TEST(StepShape, AllModelsOfTheZooHaveOne) {
  for (const char* name : {"mlp", "lenet5", "cnn", "resnet8", "resnet20", "alexnet", "vgg16",
                           "googlenet", "resnet50"}) {
    const bool is_small = std::string(name) == "lenet5";
    const auto model = training::MakeModel(
        name, is_small ? training::Shape{1, 28, 28} : training::Shape{3, 64, 64}, 10);
    ASSERT_EQ(model.status(), absl::OkStatus());
    const auto stages = MakeStages(*model);
    ASSERT_EQ(stages.status(), absl::OkStatus());
    double forward = 0, backward = 0;
    int weights = 0;
    for (const StepStage& stage : *stages) {
      EXPECT_EQ(stage.first_weight, weights) << name;
      weights += stage.weights;
      forward += stage.forward;
      backward += stage.backward;
    }
    EXPECT_EQ(weights, static_cast<int>(training::ListWeights(*model).size())) << name;
    EXPECT_NEAR(forward, 1, 1e-12) << name;
    EXPECT_NEAR(backward, 1, 1e-12) << name;
  }
}

using ::testing::Each;

// With ThreadSanitizer: what a thread has written is the owner's once Wait returns, also where the
// task was done before the owner looked.
TEST(ComputePool, WhatATaskHasWrittenIsThereOnceItWasWaitedFor) {
  for (const uint32_t threads : {1, 2, 3}) {
    ComputePool pool(threads);
    std::vector<int> written(1000, 0);
    std::vector<ComputePool::Ticket> tickets;
    for (int& value : written) {
      tickets.push_back(pool.Add([&value](ComputePool::Worker*) { ++value; }));
    }
    pool.Wait(tickets.back());
    for (size_t i = 0; i < written.size(); ++i) {
      pool.Wait(tickets[i]);
      EXPECT_EQ(written[i], 1) << i << " with " << threads << " threads";
    }
  }
}

TEST(ComputePool, TasksBeginInTheOrderInWhichTheyWereAskedFor) {
  ComputePool pool(1);
  std::vector<int> order;
  std::vector<ComputePool::Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(pool.Add([&order, i](ComputePool::Worker*) { order.push_back(i); }));
  }
  pool.Wait(tickets[1]);
  EXPECT_EQ(order, std::vector<int>({0, 1}));
  pool.Wait(tickets[2]);
  EXPECT_EQ(order, std::vector<int>({0, 1, 2}));
}

TEST(ComputePool, WhatHasNotBegunIsDropped) {
  int done = 0;
  {
    ComputePool pool(1);
    for (int i = 0; i < 3; ++i) pool.Add([&done](ComputePool::Worker*) { ++done; });
  }
  EXPECT_EQ(done, 0);
}

TEST(ComputePool, AThreadKeepsItsBuffersFromTaskToTask) {
  ComputePool pool(1);
  pool.Add([](ComputePool::Worker* worker) { worker->images.assign(4, 1.5f); });
  std::vector<float> seen;
  pool.Wait(pool.Add([&seen](ComputePool::Worker* worker) { seen = worker->images; }));
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_THAT(seen, Each(1.5f));
}

}  // namespace

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
