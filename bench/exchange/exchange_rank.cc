#include "bench/exchange/exchange_rank.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "bench/exchange/gate.h"
#include "bench/exchange/gradient_values.h"

namespace strata::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr float kFirstWeight = 0.5f;

absl::Status Join(client::Client* client, uint64_t elements) {
  client::Tensor tensor;
  tensor.name = "w";
  tensor.shape = {elements};
  if (auto index = client->Register(tensor); !index.ok()) return index.status();
  if (absl::Status status = client->Allocate(); !status.ok()) return status;
  for (float& weight : client->Weights(0)) weight = kFirstWeight;
  return client->Start({});
}

absl::Status NextWeights(client::Client* client) {
  if (absl::Status status = client->BeginStep(1); !status.ok()) return status;
  return client->WaitAll();
}

absl::Status Step(client::Client* client) {
  if (absl::Status status = client->Publish(0); !status.ok()) return status;
  if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  return NextWeights(client);
}

}  // namespace

absl::Status RunExchangeRank(client::Client* client, const ExchangeRankOptions& options) {
  absl::StatusOr<GateLine> gate = GateLine::Connect(options.gate);
  if (!gate.ok()) return gate.status();
  if (absl::Status status = Join(client, options.elements); !status.ok()) return status;
  if (absl::Status status = NextWeights(client); !status.ok()) return status;
  std::vector<float> expected(options.elements, kFirstWeight);
  const float scale = 1.0f / static_cast<float>(client->ranks());
  Arrival arrival;
  for (uint64_t step = 0; step < options.steps; ++step) {
    FillGradient(client->rank(), step, client->Gradients(0));
    if (absl::Status status = gate->Meet(arrival); !status.ok()) return status;
    const auto start = SteadyClock::now();
    if (absl::Status status = Step(client); !status.ok()) return status;
    const std::chrono::duration<double, std::milli> took = SteadyClock::now() - start;
    arrival.step_ms = took.count();
    Descend(client->ranks(), step, scale, absl::MakeSpan(expected));
    const absl::Span<const float> weights = client->WeightArena();
    if (std::memcmp(weights.data(), expected.data(), expected.size() * sizeof(float)) != 0) {
      arrival.wrong = 1;
    }
  }
  if (absl::Status status = gate->Meet(arrival); !status.ok()) return status;
  if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  return client->Finish();
}

}  // namespace strata::bench
