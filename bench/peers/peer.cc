#include "bench/peers/peer.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/bench/figures.h"
#include "cli/bench/gate.h"
#include "cli/bench/gradient_values.h"

namespace strata::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

int Complain(const std::string& name, const absl::Status& status) {
  std::fprintf(stderr, "%s: error: %s\n", name.c_str(), std::string(status.message()).c_str());
  return 1;
}

}  // namespace

void AddPeerOptions(CLI::App* app, PeerOptions* options) {
  app->add_option("--rank", options->rank);
  app->add_option("--nodes", options->nodes);
  app->add_option("--bytes", options->bytes);
  app->add_option("--steps", options->steps);
  app->add_option("--warmup", options->warmup);
  app->add_option("--gate", options->gate)->required();
}

int RunPeer(const std::string& name, const PeerOptions& options, bool in_place,
            const PeerStep& step) {
  absl::StatusOr<cli::GateConnection> gate = cli::GateConnection::Connect(options.gate);
  if (!gate.ok()) return Complain(name, gate.status());
  std::vector<float> gradient(options.bytes / sizeof(float)), separate;
  if (!in_place) separate.resize(gradient.size());
  std::vector<float>& sum = in_place ? gradient : separate;
  std::vector<double> steps_ms;
  uint32_t wrong = 0;
  for (uint64_t i = 0; i < options.warmup + options.steps; ++i) {
    cli::FillGradient(options.rank, i, absl::MakeSpan(gradient));
    if (absl::Status met = gate->Meet({.wrong = wrong}); !met.ok()) {
      return Complain(name, met);
    }
    const auto start = SteadyClock::now();
    if (absl::Status done = step(absl::MakeSpan(gradient), absl::MakeSpan(sum)); !done.ok()) {
      return Complain(name, done);
    }
    const std::chrono::duration<double, std::milli> took = SteadyClock::now() - start;
    // Nobody looks at values while others' steps are under way.
    if (absl::Status met = gate->Meet({.step_ms = took.count()}); !met.ok()) {
      return Complain(name, met);
    }
    if (i >= options.warmup) steps_ms.push_back(took.count());
    if (!cli::IsGradientSum(options.nodes, i, sum)) wrong = 1;
  }
  const bool verified = wrong == 0;
  if (absl::Status met = gate->Meet({.wrong = wrong}); !met.ok()) return Complain(name, met);
  const cli::Figures figures = cli::MakeFigures(std::move(steps_ms));
  absl::PrintF(
      "{\"peer\": \"%s\", \"rank\": %d, \"min_ms\": %f, \"median_ms\": %f, \"p99_ms\": %f, "
      "\"verified\": %s}\n",
      name, options.rank, figures.min_ms, figures.median_ms, figures.p99_ms,
      verified ? "true" : "false");
  return verified ? 0 : Complain(name, absl::DataLossError("the values were wrong"));
}

__attribute__((target_clones("avx2", "default"))) void AddTo(float* __restrict a,
                                                             const float* __restrict b, size_t n) {
  for (size_t i = 0; i < n; ++i) a[i] += b[i];
}

// The output may be one of the inputs.
__attribute__((target_clones("avx2", "default"))) void Add(float* out, const float* a,
                                                           const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

}  // namespace strata::bench
