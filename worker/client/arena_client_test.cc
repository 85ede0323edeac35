#include "worker/client/arena_client.h"

#include <memory>

#include "gtest/gtest.h"

namespace strata::client {
namespace {

TEST(ArenaClientTest, AProgramThatDoesNotKnowOfDevicesIsToldSoBeforeItCrashes) {
  proto::Launch launch;
  launch.mutable_record()->mutable_job()->set_device(proto::Job::GPU);
  ArenaClient client(launch, std::make_shared<AgentLine>(-1), nullptr);
  float memory[2] = {};
  Tensor copied{.name = "b", .shape = {1}};
  copied.weights = &memory[0];
  copied.gradients = &memory[1];
  ASSERT_TRUE(client.Register(copied).ok());
  ASSERT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
  EXPECT_EQ(client.Allocate(),
            absl::FailedPreconditionError("device: GPU, but the program, which keeps \"w\" in the "
                                          "arena, has not called AcceptDevice"));
}

}  // namespace
}  // namespace strata::client
