// A user's program for tests of jobs on GPUs: `device_rank copied|stream|adopted STEPS STEP_MS
// LAUNCH`. It computes on the host. Its tensor is in its own memory, or in the arena, which it
// fills through a stream of the device that the client knows or adopts. Rank 0 prints a checksum of
// the final weights.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/wire/frame.h"
#include "kernels/device/device.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"

namespace strata::tests {
namespace {

constexpr uint64_t kElements = 20'000;
constexpr uint32_t kBatch = 8;

struct Options {
  bool copied = false, adopted = false;
  uint64_t steps = 0;
  absl::Duration step_time;
};

// Keeps the tensor's values on the host.
struct Values {
  std::vector<float> weights = std::vector<float>(kElements, 0.25f);
  std::vector<float> gradients = std::vector<float>(kElements);
};

absl::Status Register(const Options& options, client::Client& client, Values* values) {
  client::Tensor tensor{.name = "w", .shape = {kElements}};
  if (options.copied) {
    tensor.weights = values->weights.data();
    tensor.gradients = values->gradients.data();
  } else {
    client.devices().Accept();
  }
  if (auto index = client.Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client.Allocate(); !status.ok()) return status;
  if (!options.copied)
    for (float& weight : client.Weights(0)) weight = 0.25f;
  return client.Start(
      {.samples_per_epoch = 1000, .total_steps = options.steps, .can_resume = true});
}

absl::Status Compute(uint64_t step, client::Client& client, device::Stream* stream,
                     Values* values) {
  const auto weights = client.ReadWeights();
  if (!weights.ok()) return weights.status();
  for (uint64_t i = 0; i < kElements; ++i) {
    const float wave = std::sin(0.1f * static_cast<float>(i + 7 * client.rank() + 13 * step));
    // Multiples of 1 / 1024: sums over a few ranks are exact in any order.
    const float mean = std::nearbyint(1024 * (0.2f * (*weights)[i] + wave)) / 1024;
    values->gradients[i] = static_cast<float>(kBatch) * mean;
  }
  if (stream != nullptr) {
    return stream->Copy(client.Gradients(0).data(), values->gradients.data(),
                        kElements * sizeof(float));
  }
  float* const gradients = client.Gradients(0).data();
  if (gradients != values->gradients.data()) {
    std::copy(values->gradients.begin(), values->gradients.end(), gradients);
  }
  return absl::OkStatus();
}

absl::Status Train(const Options& options, client::Client& client) {
  Values values;
  if (absl::Status status = Register(options, client, &values); !status.ok()) return status;
  std::unique_ptr<device::Stream> stream, adopted;
  if (!options.copied && client.devices().device() != nullptr) {
    auto created = client.devices().device()->NewStream(/*urgent=*/false);
    if (!created.ok()) return created.status();
    stream = *std::move(created);
    if (options.adopted) {
      auto adopting = client.devices().device()->AdoptStream(stream->native());
      if (!adopting.ok()) return adopting.status();
      adopted = *std::move(adopting);
    }
    device::Stream* const in = options.adopted ? adopted.get() : stream.get();
    if (absl::Status status = client.devices().ComputeIn(in); !status.ok()) return status;
  }
  for (uint64_t step = client.first_step(); step < options.steps; ++step) {
    if (absl::Status status = client.BeginStep(kBatch); !status.ok()) return status;
    if (absl::Status status = client.WaitAll(); !status.ok()) return status;
    absl::SleepFor(options.step_time);
    absl::Status status = Compute(step, client, stream.get(), &values);
    if (status.ok()) status = client.Publish(0);
    if (status.ok()) status = client.FinishStep();
    if (!status.ok()) return status;
    status = client.Send({.first_step = step, .end_step = step + 1, .samples = kBatch});
    if (!status.ok()) return status;
  }
  if (absl::Status status = client.Finish(); !status.ok()) return status;
  const auto weights = client.ReadWeights();
  if (!weights.ok()) return weights.status();
  if (client.rank() == 0) {
    std::printf("weights %016lx\n",
                wire::Checksum({reinterpret_cast<const std::byte*>(weights->data()),
                                weights->size() * sizeof(float)}));
  }
  return client.devices().ComputeIn(nullptr);
}

absl::Status Run(int argc, char** argv) {
  if (argc != 5) return absl::InvalidArgumentError("copied|stream|adopted STEPS STEP_MS LAUNCH");
  const Options options = {.copied = std::string(argv[1]) == "copied",
                           .adopted = std::string(argv[1]) == "adopted",
                           .steps = std::strtoull(argv[2], nullptr, 10),
                           .step_time = absl::Milliseconds(std::atoi(argv[3]))};
  auto client = client::Client::Connect(argv[4]);
  if (!client.ok()) return client.status();
  return Train(options, **client);
}

}  // namespace
}  // namespace strata::tests

int main(int argc, char** argv) {
  const absl::Status status = strata::tests::Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "device_rank: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
