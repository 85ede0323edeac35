// A user's program for tests of comparisons: `values_rank STEPS STEP_MS LAUNCH`. Its weights go
// from 0 towards 1, each rank by its own gradients; rank 0 reports a perplexity that falls and
// `twice` the weight, which rises. With `own` behind LAUNCH it has an optimizer of its own.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/client/client.h"

namespace strata::tests {
namespace {

constexpr uint64_t kReportEvery = 5;  // steps
constexpr uint32_t kBatch = 8;

absl::Status Send(client::Client& client, client::Report report) {
  if (client.rank() == 0) {
    absl::Status status = report.final ? absl::OkStatus() : client.WaitAll();
    if (!status.ok()) return status;
    const double weight = client.Weights(0)[0];
    report.values = {{"perplexity", 20 - 10 * weight}, {"twice", 2 * weight}};
  }
  return client.Send(report);
}

// With `says_rates` optimizer and learning rates are the program's own.
absl::Status Train(client::Client& client, uint64_t steps, absl::Duration step_time,
                   bool says_rates) {
  auto index = client.Register({.name = "w", .shape = {1000}});
  if (!index.ok()) return index.status();
  if (absl::Status status = client.Start({.total_steps = steps,
                                          .optimizer = says_rates ? "sgd {}" : "",
                                          .says_rates = says_rates});
      !status.ok()) {
    return status;
  }
  absl::Time window = absl::Now();
  for (uint64_t step = 0; step < steps; ++step) {
    absl::Status status = says_rates ? client.BeginStepAt(kBatch, 0.1) : client.BeginStep(kBatch);
    if (status.ok()) status = client.WaitAll();
    if (!status.ok()) return status;
    absl::SleepFor(step_time);
    for (int i = 0; i < 1000; ++i) {
      client.Gradients(0)[i] = kBatch * (client.Weights(0)[i] - 1.0f);
    }
    status = client.Publish(0);
    if (status.ok()) status = client.FinishStep();
    if (status.ok() && (step + 1) % kReportEvery == 0) {
      const absl::Time now = absl::Now();
      const double wall_s = absl::ToDoubleSeconds(now - std::exchange(window, now));
      status = Send(client, {.first_step = step + 1 - kReportEvery,
                             .end_step = step + 1,
                             .samples = kBatch * kReportEvery,
                             .wall_s = wall_s});
    }
    if (!status.ok()) return status;
  }
  if (absl::Status status = client.Finish(); !status.ok()) return status;
  return Send(client, {.first_step = steps, .end_step = steps, .final = true});
}

absl::Status Run(int argc, char** argv) {
  if (argc != 4 && argc != 5) return absl::InvalidArgumentError("STEPS STEP_MS LAUNCH [own]");
  auto client = client::Client::Connect(argv[3]);
  if (!client.ok()) return client.status();
  return Train(**client, std::strtoull(argv[1], nullptr, 10),
               absl::Milliseconds(std::atoi(argv[2])), /*says_rates=*/argc == 5);
}

}  // namespace
}  // namespace strata::tests

int main(int argc, char** argv) {
  const absl::Status status = strata::tests::Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "values_rank: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
