#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/diverged.h"
#include "common/os/framed_channel.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/processes.pb.h"
#include "worker/client/client.h"

namespace strata::client {
namespace {

constexpr char kLaunch[] = R"(
  record { job_id: 7 job {
    name: "t" ranks: 1 epochs: 1 exchange: NONE chunk_elements: 256
    optimizer { momentum_sgd { momentum: 0.5 weight_decay: 0.25 } }
    schedule { base_lr: 0.5 constant {} } } }
  local_ranks: 1 run_dir: "/runs/t-7" )";

std::string WriteLaunch(const std::string& text) {
  std::string path = testing::TempDir() + "/launch.txt";
  std::ofstream(path) << text;
  return path;
}

std::unique_ptr<Client> ConnectOrDie(const std::string& text = kLaunch) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(WriteLaunch(text));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

Tensor Named(const std::string& name, uint64_t count) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {count};
  return tensor;
}

TEST(LocalClientTest, AppliesTheOptimizerToTheMeanGradient) {
  std::unique_ptr<Client> client = ConnectOrDie();
  ASSERT_EQ(*client->Register(Named("w", 300)), 0);
  Tensor bias = Named("b", 100);
  bias.decay_multiplier = 0;
  ASSERT_EQ(*client->Register(bias), 1);
  ASSERT_TRUE(client->Allocate().ok());
  for (float& w : client->Weights(0)) w = 1.0f;
  ASSERT_TRUE(client->Start({}).ok());
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(client->BeginStep(4).ok());
    ASSERT_TRUE(client->WaitAll().ok());
    for (float& g : client->Gradients(0)) g = 2.0f;  // mean 0.5
    ASSERT_TRUE(client->Publish(0).ok());
    for (float& g : client->Gradients(1)) g = 4.0f;  // mean 1
    ASSERT_TRUE(client->Publish(1).ok());
    ASSERT_TRUE(client->FinishStep().ok());
  }
  ASSERT_TRUE(client->Finish().ok());
  // w: v = 0.75, w = 0.625; v = 0.375 + 0.65625, w = 0.625 - 0.515625. b: v = 1, 1.5; w = -1.25.
  for (float w : client->Weights(0)) EXPECT_EQ(w, 0.109375f);
  for (float b : client->Weights(1)) EXPECT_EQ(b, -1.25f);
  EXPECT_EQ(client->ReadWeights()->size(), 400u);
}

TEST(LocalClientTest, CopiedTensorsGiveTheSameBitsAsMappedOnes) {
  std::vector<std::vector<float>> finals;
  for (bool copied : {false, true}) {
    std::unique_ptr<Client> client = ConnectOrDie();
    std::vector<float> weights(300), gradients(300);
    Tensor tensor = Named("w", 300);
    if (copied) {
      tensor.weights = weights.data();
      tensor.gradients = gradients.data();
    }
    ASSERT_TRUE(client->Register(tensor).ok());
    ASSERT_TRUE(client->Allocate().ok());
    for (int i = 0; i < 300; ++i) client->Weights(0)[i] = 0.01f * i;
    ASSERT_TRUE(client->Start({}).ok());
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(client->BeginStep(3).ok());
      ASSERT_TRUE(client->Wait(0).ok());
      for (int i = 0; i < 300; ++i) client->Gradients(0)[i] = client->Weights(0)[i] * 1.1f + step;
      ASSERT_TRUE(client->Publish(0).ok());
      ASSERT_TRUE(client->FinishStep().ok());
    }
    ASSERT_TRUE(client->Finish().ok());
    finals.emplace_back(client->Weights(0).begin(), client->Weights(0).end());
  }
  EXPECT_EQ(finals[0], finals[1]);
  EXPECT_NE(finals[0][5], 0.05f);
}

// A program that knows its step's samples only after its forward pass.
TEST(LocalClientTest, AStepMayBeginAfterItsWaitsAndSaysItsSamplesThen) {
  std::unique_ptr<Client> client = ConnectOrDie();
  std::vector<float> weights(2), gradients(2);
  Tensor copied = Named("c", 2);
  copied.weights = weights.data();
  copied.gradients = gradients.data();
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  ASSERT_TRUE(client->Register(copied).ok());
  EXPECT_EQ(client->Wait(0).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(client->Start({}).ok());
  ASSERT_TRUE(client->WaitAll().ok());
  for (uint32_t samples : {1, 4}) {
    EXPECT_EQ(client->Publish(0).code(), absl::StatusCode::kFailedPrecondition);
    ASSERT_TRUE(client->BeginStep(samples).ok());
    for (int tensor : {0, 1}) {
      for (float& g : client->Gradients(tensor)) g = 2.0f;
      ASSERT_TRUE(client->Publish(tensor).ok());
    }
    const float before = weights[0];
    ASSERT_TRUE(client->FinishStep().ok());
    EXPECT_EQ(weights[0], before);  // until they are waited for
    ASSERT_TRUE(client->Wait(1).ok());
    EXPECT_EQ(weights[0], client->Weights(0)[0]);
  }
  // v = 2, w = -1; v = 1 + 0.5 - 0.25, w = -1 - 0.625.
  EXPECT_EQ(weights[1], -1.625f);
  ASSERT_TRUE(client->Finish().ok());
  EXPECT_EQ(client->Wait(0).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LocalClientTest, ARankWithOtherSamplesThanTheJobSaysIsRefused) {
  std::unique_ptr<Client> client = ConnectOrDie(R"(
    record { job { ranks: 1 epochs: 1 exchange: NONE program { path: "/p" samples_per_rank: 8 }
                   optimizer { mean {} } schedule { base_lr: 1 constant {} } } }
    local_ranks: 1 )");
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  ASSERT_TRUE(client->Start({}).ok());
  EXPECT_EQ(client->BeginStep(7),
            absl::InvalidArgumentError(
                "BeginStep: 7 samples, but the job's program.samples_per_rank is 8"));
  ASSERT_TRUE(client->BeginStep(8).ok());
  client->Gradients(0)[1] = 4.0f;
  ASSERT_TRUE(client->FinishStep().ok());
  // The unpublished gradient is zero; the result is just the mean.
  EXPECT_EQ(client->Weights(0)[1], 0.0f);
  ASSERT_TRUE(client->BeginStep(8).ok());
  client->Gradients(0)[1] = 4.0f;
  ASSERT_TRUE(client->Publish(0).ok());
  ASSERT_TRUE(client->FinishStep().ok());
  EXPECT_EQ(client->Weights(0)[1], 0.5f);
}

// SGD with decay, at the rates given by the program.
TEST(LocalClientTest, AProgramNamesItsOptimizerAndTheRateOfEachStep) {
  std::unique_ptr<Client> client = ConnectOrDie(R"(
    record { job { name: "t" ranks: 1 epochs: 1 exchange: NONE program { path: "/p" } window: 4
                   connections: 1 evaluation { every_epochs: 1 } metrics { every_steps: 1 }
                   consistency { sync {} } optimizer { from_program {} }
                   schedule { base_lr: 0.05 constant {} } } }
    local_ranks: 1 )");
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  ASSERT_TRUE(client->Allocate().ok());
  client->Weights(0)[0] = 1.0f;
  EXPECT_EQ(client->BeginStepAt(1, 0.5).code(), absl::StatusCode::kFailedPrecondition);
  JobFacts facts;
  facts.optimizer = "sgd { weight_decay: 0.5 }";
  facts.says_rates = true;
  ASSERT_EQ(client->Start(facts), absl::OkStatus());
  EXPECT_EQ(client->BeginStep(1),
            absl::FailedPreconditionError("BeginStep: the program says the learning rate of each "
                                          "step (JobFacts::says_rates), which BeginStepAt takes"));
  for (const double bad : {-0.5, 1e39, double{NAN}, double{INFINITY}}) {
    EXPECT_EQ(client->BeginStepAt(1, bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  for (const double rate : {0.5, 0.0, 0.25}) {
    ASSERT_EQ(client->BeginStepAt(1, rate), absl::OkStatus());
    client->Gradients(0)[1] = -1.0f;
    ASSERT_TRUE(client->Publish(0).ok());
    ASSERT_TRUE(client->FinishStep().ok());
  }
  EXPECT_EQ(client->Weights(0)[0], 0.75f * 0.875f);
  EXPECT_EQ(client->Weights(0)[1], 0.5f + 0.25f - 0.25f * 0.25f);
}

TEST(LocalClientTest, WhoNamesTheOptimizerIsSettledBeforeTheFirstStep) {
  const auto start = [](const JobFacts& facts) {
    std::unique_ptr<Client> client = ConnectOrDie();
    EXPECT_TRUE(client->Register(Named("w", 2)).ok());
    absl::Status started = client->Start(facts);
    if (started.ok() && !facts.says_rates) {
      EXPECT_EQ(client->BeginStepAt(1, 0.5).code(), absl::StatusCode::kFailedPrecondition);
    }
    return started;
  };
  JobFacts named, broken, rated;
  named.optimizer = "sgd {}";
  broken.optimizer = "sgd { lr: 1 }";
  rated.says_rates = true;
  EXPECT_EQ(start(named).message(),
            "optimizer: the job has momentum_sgd, but the program names sgd: set optimizer { "
            "from_program {} }, or let the program name none");
  EXPECT_EQ(start(broken).message(),
            "the program's optimizer:1:7: Message type \"strata.proto.Sgd\" has no field named "
            "\"lr\".");
  EXPECT_EQ(start(rated).message().substr(0, 70),
            "schedule: the program says the learning rate of each step, so it has n");
  EXPECT_TRUE(start({}).ok());
}

TEST(LocalClientTest, FinishStepPublishesZerosForWhatWasNotPublished) {
  std::unique_ptr<Client> client = ConnectOrDie();
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  ASSERT_TRUE(client->Allocate().ok());
  client->Weights(0)[0] = 1.0f;
  ASSERT_TRUE(client->Start({}).ok());
  ASSERT_TRUE(client->BeginStep(1).ok());
  client->Gradients(0)[0] = 1000.0f;
  ASSERT_TRUE(client->FinishStep().ok());
  EXPECT_EQ(client->Weights(0)[0], 1.0f - 0.5f * 0.25f);  // decay only
}

TEST(LocalClientTest, CallsOutOfOrderAreRefused) {
  std::unique_ptr<Client> client = ConnectOrDie();
  constexpr auto kOrder = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(client->Allocate().code(), kOrder);
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  EXPECT_EQ(client->BeginStep(1).code(), kOrder);
  ASSERT_TRUE(client->Start({}).ok());
  EXPECT_EQ(client->Register(Named("v", 2)).status().code(), kOrder);
  EXPECT_EQ(client->Publish(0).code(), kOrder);
  ASSERT_TRUE(client->BeginStep(1).ok());
  EXPECT_EQ(client->Publish(1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(client->Publish(0).ok());
  EXPECT_EQ(client->Publish(0).code(), kOrder);
  EXPECT_EQ(client->Finish().code(), kOrder);
}

TEST(LocalClientTest, AGradientThatIsNotFiniteNamesChunkAndStep) {
  std::unique_ptr<Client> client = ConnectOrDie();
  ASSERT_TRUE(client->Register(Named("w", 600)).ok());
  ASSERT_TRUE(client->Start({}).ok());
  ASSERT_TRUE(client->BeginStep(1).ok());
  client->Gradients(0)[599] = std::numeric_limits<float>::infinity();
  absl::Status status = client->Publish(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the gradient of chunk 2 is not finite at step 0");
}

TEST(LocalClientTest, AMissingOrBrokenLaunchFileIsNamed) {
  EXPECT_EQ(Client::Connect("/nowhere/launch").status().code(), absl::StatusCode::kNotFound);
  absl::Status broken = Client::Connect(WriteLaunch("rank: what")).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(broken.ToString().find("launch.txt"), std::string::npos);
}

TEST(LocalClientTest, UnderAWorkerDaemonItSaysReadyWaitsForRunAndReports) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  std::unique_ptr<Client> client =
      ConnectOrDie(kLaunch + ("channel_fd: " + std::to_string(fds[1])));
  FramedChannel agent{UniqueFd(fds[0])};
  std::thread daemon([&] {
    proto::ChildMessage ready;
    ASSERT_TRUE(agent.Receive(&ready, absl::Seconds(60)).ok());
    EXPECT_EQ(ready.ready().job_id(), 7u);
    EXPECT_EQ(ready.ready().layout().elements(), 2u);
    EXPECT_EQ(ready.ready().samples_per_epoch(), 10u);
    EXPECT_EQ(ready.ready().run_dir(), "/runs/t-7");
    proto::AgentMessage run;
    run.mutable_run();
    ASSERT_TRUE(agent.Send(run).ok());
  });
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  ASSERT_TRUE(client->Start({10, 1}).ok());
  daemon.join();
  Report report;
  report.end_step = 5;
  ASSERT_TRUE(client->Send(report).ok());
  client->Fail(DivergedError("loss is NaN at step 5"));
  proto::ChildMessage message;
  ASSERT_TRUE(agent.Receive(&message, absl::Seconds(60)).ok());
  EXPECT_EQ(message.report().end_step(), 5u);
  EXPECT_EQ(message.report().lr(), 0.5);
  ASSERT_TRUE(agent.Receive(&message, absl::Seconds(60)).ok());
  EXPECT_EQ(message.failed(), "loss is NaN at step 5");
  EXPECT_TRUE(message.has_diverged());
}

TEST(LocalClientTest, AReportHasTheRateThatTheProgramSaidLast) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  std::unique_ptr<Client> client =
      ConnectOrDie(absl::StrReplaceAll(kLaunch, {{"base_lr: 0.5", "base_lr: 0.05"}}) +
                   ("channel_fd: " + std::to_string(fds[1])));
  FramedChannel agent{UniqueFd(fds[0])};
  std::thread daemon([&] {
    proto::ChildMessage ready;
    ASSERT_TRUE(agent.Receive(&ready, absl::Seconds(60)).ok());
    EXPECT_TRUE(ready.ready().says_rates());
    EXPECT_FALSE(ready.ready().has_optimizer());
    proto::AgentMessage run;
    run.mutable_run();
    ASSERT_TRUE(agent.Send(run).ok());
  });
  ASSERT_TRUE(client->Register(Named("w", 2)).ok());
  JobFacts facts;
  facts.says_rates = true;
  ASSERT_TRUE(client->Start(facts).ok());
  daemon.join();
  for (const double rate : {0.5, 0.125}) {
    ASSERT_TRUE(client->BeginStepAt(1, rate).ok());
    ASSERT_TRUE(client->FinishStep().ok());
  }
  ASSERT_TRUE(client->Send({}).ok());
  proto::ChildMessage message;
  ASSERT_TRUE(agent.Receive(&message, absl::Seconds(60)).ok());
  EXPECT_EQ(message.report().lr(), 0.125);
}

}  // namespace
}  // namespace strata::client
