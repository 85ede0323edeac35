#include "cli/bench/exchange_rank.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "cli/bench/gate.h"
#include "cli/bench/gradient_values.h"

namespace strata::cli {
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

bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

absl::Status RunExchangeRank(client::Client* client, const ExchangeRankOptions& options) {
  absl::StatusOr<GateConnection> gate = GateConnection::Connect(options.gate);
  if (!gate.ok()) return gate.status();
  if (absl::Status status = Join(client, options.elements); !status.ok()) return status;
  if (absl::Status status = NextWeights(client); !status.ok()) return status;
  std::vector<float> expected(options.sums ? 0 : options.elements, kFirstWeight);
  const float scale = 1.0f / static_cast<float>(client->ranks());
  uint32_t wrong = 0;
  for (uint64_t step = 0; step < options.steps; ++step) {
    FillGradient(client->rank(), step, client->Gradients(0));
    if (absl::Status status = gate->Meet({.wrong = wrong}); !status.ok()) return status;
    const auto start = SteadyClock::now();
    if (absl::Status status = Step(client); !status.ok()) return status;
    const std::chrono::duration<double, std::milli> took = SteadyClock::now() - start;
    // Nobody looks at values while others' steps are under way.
    if (absl::Status status = gate->Meet({.step_ms = took.count()}); !status.ok()) return status;
    if (options.sums) {
      if (!IsGradientSum(client->ranks(), step, *client->ReadWeights())) wrong = 1;
    } else {
      Descend(client->ranks(), step, scale, absl::MakeSpan(expected));
      if (!SameBits(*client->ReadWeights(), expected)) wrong = 1;
    }
  }
  if (absl::Status status = gate->Meet({.wrong = wrong}); !status.ok()) return status;
  if (absl::Status status = client->FinishStep(); !status.ok()) return status;
  return client->Finish();
}

}  // namespace strata::cli
