// Jobs with device: GPU on fake devices: gradients are summed there, and the weights are
// bit-identical to those without a device.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/device/device.h"
#include "tests/exchange/node_cluster.h"
#include "worker/client/client_parts.h"

namespace strata::tests {
namespace {

using client::Client;
using testing::HasSubstr;

constexpr char kFake[] = "kernels/cuda/libstrata_fake_device.so,devices=2,memory_mb=64,opens_own=1";
constexpr uint64_t kElements = 1037;
constexpr int kSteps = 10;

// Weights before each step and at the end.
using History = std::vector<std::vector<float>>;
using Values = std::vector<float>;
using Body = std::function<absl::Status(Client*, History*)>;

void Backward(uint32_t rank, int step, const Values& weights, Values* gradients) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const float wave = std::sin(0.37f * static_cast<float>(i + 11 * rank + 101 * step));
    (*gradients)[i] = 0.3f * weights[i] + wave;
  }
}

absl::Status Keep(Client* client, History* history) {
  const auto weights = client->ReadWeights();
  if (!weights.ok()) return weights.status();
  history->emplace_back(weights->begin(), weights->end());
  return absl::OkStatus();
}

absl::Status EachStep(Client* client, History* history,
                      const std::function<absl::Status(int step)>& publish) {
  for (int step = 0; step < kSteps; ++step) {
    if (absl::Status status = client->BeginStep(1); !status.ok()) return status;
    if (absl::Status status = client->WaitAll(); !status.ok()) return status;
    if (absl::Status status = Keep(client, history); !status.ok()) return status;
    if (absl::Status status = publish(step); !status.ok()) return status;
    if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  }
  if (absl::Status status = client->Finish(); !status.ok()) return status;
  return Keep(client, history);
}

// A program that computes on the host, in its own memory. The last tensor's gradients are never
// published, so its place in the arena does not matter.
absl::Status TrainCopied(Client* client, History* history) {
  Values weights(kElements, 0.5f), gradients(kElements);
  client::Tensor tensor{.name = "w", .shape = {kElements}};
  tensor.weights = weights.data();
  tensor.gradients = gradients.data();
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (auto index = client->Register({.name = "idle", .shape = {300}}); !index.ok()) {
    return index.status();
  }
  client->devices().Accept();
  if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) return status;
  return EachStep(client, history, [&](int step) {
    Backward(client->rank(), step, weights, &gradients);
    return client->Publish(0);
  });
}

// A step computed in a stream, in the arenas on the device; without a device, on the host.
absl::Status TrainInStream(Client* client, History* history) {
  if (auto index = client->Register({.name = "w", .shape = {kElements}}); !index.ok()) {
    return index.status();
  }
  if (auto index = client->Register({.name = "idle", .shape = {300}}); !index.ok()) {
    return index.status();
  }
  client->devices().Accept();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (float& w : client->Weights(0)) w = 0.5f;
  if (absl::Status status = client->Start({.samples_per_epoch = 100}); !status.ok()) return status;
  std::unique_ptr<device::Stream> stream;
  if (client->devices().device() != nullptr) {
    stream = *client->devices().device()->NewStream(/*urgent=*/false);
    absl::Status status = client->devices().ComputeIn(stream.get());
    if (!status.ok()) return status;
  }
  Values gradients(kElements);  // must live until its copy is done, before the next Wait
  const absl::Status status = EachStep(client, history, [&](int step) {
    const Values& weights = history->back();
    Backward(client->rank(), step, {weights.begin(), weights.begin() + kElements}, &gradients);
    if (stream == nullptr) {
      std::copy(gradients.begin(), gradients.end(), client->Gradients(0).begin());
    } else {
      absl::Status copied =
          stream->Copy(client->Gradients(0).data(), gradients.data(), kElements * sizeof(float));
      if (!copied.ok()) return copied;
    }
    return client->Publish(0);
  });
  const absl::Status waits = client->devices().ComputeIn(nullptr);
  return status.ok() ? waits : status;
}

proto::Job JobOf(const std::string& fields) {
  proto::Job job;
  const std::string text = absl::StrCat(
      "name: 'd' epochs: 1 chunk_elements: 256 window: 2 program { path: 'none' } "
      "optimizer { momentum_sgd { weight_decay: 1e-3 } } ",
      fields);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

// By rank.
std::vector<History> Histories(const Body& body, ClusterShape shape, proto::Job job,
                               bool on_devices) {
  if (on_devices) {
    job.set_device(proto::Job::GPU);
    shape.device_plugin = kFake;
    shape.devices = 2;
  }
  NodeCluster cluster(shape, job, kElements + 300, 100);
  absl::Mutex mutex;
  std::vector<History> histories(shape.nodes * shape.ranks_per_node);
  const absl::Status status = cluster.Run([&](Client* client) {
    EXPECT_EQ(client->devices().device(), nullptr);
    History history;
    absl::Status trained = body(client, &history);
    EXPECT_EQ(client->devices().device() != nullptr, on_devices);
    absl::MutexLock lock(&mutex);
    histories[client->rank()] = std::move(history);
    return trained;
  });
  EXPECT_EQ(status, absl::OkStatus());
  return histories;
}

void ExpectBitsOfTheHost(const std::string& fields, const ClusterShape& shape) {
  const proto::Job job = JobOf(fields);
  for (const Body& body : {Body(TrainCopied), Body(TrainInStream)}) {
    const std::vector<History> expected = Histories(body, shape, job, false);
    ASSERT_EQ(expected[0].size(), kSteps + 1u);
    EXPECT_TRUE(Histories(body, shape, job, true) == expected) << fields;
  }
}

TEST(DevicesTest, SyncHasTheBitsOfTheHost) {
  ExpectBitsOfTheHost("", {.nodes = 1, .ranks_per_node = 1, .shards = 1});
  ExpectBitsOfTheHost("", {.nodes = 1, .ranks_per_node = 3, .shards = 2});
  ExpectBitsOfTheHost("", {.nodes = 2, .ranks_per_node = 2, .shards = 2});
}

TEST(DevicesTest, EncodedGradientsAndWeightsHaveTheBitsOfTheHost) {
  const ClusterShape shape = {.nodes = 2, .ranks_per_node = 2, .shards = 1};
  ExpectBitsOfTheHost("push { codec: FP16 } pull { codec: FP16 }", shape);
  ExpectBitsOfTheHost("push { codec: TOP_K density: 0.1 } pull { codec: TOP_K density: 0.1 }",
                      shape);
  ExpectBitsOfTheHost("push { codec: ONE_BIT } pull { codec: INT8 }", shape);
}

TEST(DevicesTest, WhatNodesDoByThemselvesHasTheBitsOfTheHost) {
  const ClusterShape shape = {.nodes = 2, .ranks_per_node = 2, .shards = 1};
  ExpectBitsOfTheHost("consistency { preset: 'local(3)' }", shape);
  ExpectBitsOfTheHost("consistency { preset: 'delay1' }", shape);
}

TEST(DevicesTest, EveryModeTrainsToTheEnd) {
  for (const std::string mode :
       {"lazy { staleness: 2 }", "lazy { staleness: 1 apply: ON_ARRIVAL }", "async {}",
        "async { elastic { every_steps: 3 } }", "preset: 'quorum(2)'"}) {
    const proto::Job job = JobOf(absl::StrCat("consistency { ", mode, " }"));
    const ClusterShape shape = {.nodes = 2, .ranks_per_node = 2, .shards = 2};
    for (const Body& body : {Body(TrainCopied), Body(TrainInStream)}) {
      for (const History& history : Histories(body, shape, job, true)) {
        ASSERT_EQ(history.size(), kSteps + 1u) << mode;
        for (float w : history.back()) ASSERT_LT(std::abs(w), 100) << mode;
      }
    }
  }
}

TEST(DevicesTest, AFailureOnTheDeviceEndsTheJobWithItsCause) {
  ClusterShape shape = {.nodes = 1, .ranks_per_node = 3, .shards = 1};
  uint32_t fails_at = 20;
  for (const Body& body : {Body(TrainCopied), Body(TrainInStream)}) {
    // Other settings create new devices for the process.
    shape.device_plugin = absl::StrCat(kFake, ",fails_at=", fails_at++, ",error=700");
    NodeCluster cluster(shape, JobOf("device: GPU"), kElements + 300, 100);
    const absl::Status status = cluster.Run([&](Client* client) {
      History history;
      return body(client, &history);
    });
    EXPECT_THAT(std::string(status.message()), HasSubstr("device 0: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("illegal memory access"));
  }
}

TEST(DevicesTest, ADeviceThatIsTooSmallEndsTheJobWithWhatWasAskedAndFree) {
  proto::Job job = JobOf("device: GPU");
  ClusterShape shape = {.nodes = 1, .ranks_per_node = 2, .shards = 1};
  shape.device_plugin = "kernels/cuda/libstrata_fake_device.so,memory_mb=0,opens_own=1";
  NodeCluster cluster(shape, job, kElements + 300, 100);
  History history;
  const absl::Status status =
      cluster.Run([&](Client* client) { return TrainCopied(client, &history); });
  EXPECT_THAT(std::string(status.message()), HasSubstr("asked for"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("free"));
}

}  // namespace
}  // namespace strata::tests
