// Trains y = w.x + b through a running Strata cluster. Every rank runs this program; the worker
// daemon passes the launch file as the last argument. See README.md for how to submit it.
#include <cstdio>
#include <random>
#include <string>

#include "absl/time/clock.h"
#include "worker/client/client.h"

constexpr int kInputs = 8;   // w has so many elements
constexpr int kBatch = 32;   // samples of each rank per step
constexpr int kSteps = 300;  // of each rank
constexpr int kReportEvery = 50;

// The solution: w[i] = i - 3, b = 5.
float TrueWeight(int i) { return static_cast<float>(i - 3); }
constexpr float kTrueBias = 5;

absl::Status Train(strata::client::Client& client) {
  // Tensors are registered in the order in which backward finishes their gradients. Without
  // pointers they live in shared memory, where the node's aggregator sums the ranks' gradients.
  auto w = client.Register({.name = "w", .shape = {kInputs}});
  if (!w.ok()) return w.status();
  auto b = client.Register({.name = "b", .shape = {1}, .decay_multiplier = 0});
  if (!b.ok()) return b.status();
  if (absl::Status status = client.Allocate(); !status.ok()) return status;

  // The first weights, zero here, must be the same on every rank. Start waits for all of them.
  if (absl::Status status = client.Start({.total_steps = kSteps}); !status.ok()) return status;
  std::mt19937 random(client.rank());  // each rank sees samples of its own
  std::normal_distribution<float> normal;
  strata::client::Report report;
  absl::Time begun = absl::Now();
  for (int step = 0; step < kSteps; ++step) {
    if (absl::Status status = client.BeginStep(kBatch); !status.ok()) return status;
    // Weights of this step. A deeper model would wait for each layer just before its forward.
    if (absl::Status status = client.WaitAll(); !status.ok()) return status;
    float gradient_w[kInputs] = {}, gradient_b = 0;
    double loss = 0;
    for (int sample = 0; sample < kBatch; ++sample) {
      float x[kInputs], error = client.Weights(*b)[0] - kTrueBias;
      for (int i = 0; i < kInputs; ++i) {
        x[i] = normal(random);
        error += x[i] * (client.Weights(*w)[i] - TrueWeight(i));  // prediction minus truth
      }
      loss += error * error / 2;
      for (int i = 0; i < kInputs; ++i) gradient_w[i] += error * x[i];
      gradient_b += error;
    }
    // Sums over the batch, not means: the optimizer divides by the samples of all ranks.
    for (int i = 0; i < kInputs; ++i) client.Gradients(*w)[i] = gradient_w[i];
    client.Gradients(*b)[0] = gradient_b;
    // From here on this step reads the tensor's weights no more; the exchange begins.
    if (absl::Status status = client.Publish(*w); !status.ok()) return status;
    if (absl::Status status = client.Publish(*b); !status.ok()) return status;
    if (absl::Status status = client.FinishStep(); !status.ok()) return status;
    // Shows up in `strata status` and in metrics.jsonl.
    report.loss_sum += loss;
    report.samples += kBatch;
    report.end_step = step + 1;
    if (report.end_step % kReportEvery != 0) continue;
    report.wall_s = absl::ToDoubleSeconds(absl::Now() - begun);
    if (absl::Status status = client.Send(report); !status.ok()) return status;
    report = {.first_step = report.end_step};
    begun = absl::Now();
  }
  // Waits for all nodes; then the weights are the job's final ones, on every rank.
  if (absl::Status status = client.Finish(); !status.ok()) return status;
  if (client.rank() != 0) return absl::OkStatus();
  for (int i = 0; i < kInputs; ++i) std::printf("w[%d] = %.3f\n", i, client.Weights(*w)[i]);
  std::printf("b = %.3f\n", client.Weights(*b)[0]);
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  auto client = strata::client::Client::Connect(argc > 1 ? argv[argc - 1] : "");
  absl::Status status = client.ok() ? Train(**client) : client.status();
  if (!status.ok()) std::fprintf(stderr, "linear: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
