// Trains y = w.x + b through a Strata cluster, in C. Every rank runs this program; the worker
// daemon passes the launch file as the last argument.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strata_client.h>

enum { kInputs = 8, kBatch = 32, kSteps = 300, kReportEvery = 50 };

// What is to be found: w[i] = i - 3, b = 5.
static double TrueWeight(int i) { return i - 3; }
static const double kTrueBias = 5;

static void Check(strata_code code) {
  if (code == STRATA_OK) return;
  fprintf(stderr, "linear: %s\n", strata_error_text());
  exit(1);
}

static double Uniform(void) { return 2.0 * rand() / RAND_MAX - 1; }

static int32_t Register(strata_client* client, const char* name, uint64_t elements, float decay) {
  const strata_tensor tensor = {.size = sizeof tensor,
                                .name = name,
                                .shape = &elements,
                                .dimensions = 1,
                                .lr_multiplier = 1,
                                .decay_multiplier = decay};
  int32_t index;
  Check(strata_register(client, &tensor, &index));
  return index;
}

int main(int argc, char** argv) {
  strata_client* client;
  Check(strata_connect(argc > 1 ? argv[argc - 1] : "", &client));
  // In the order in which backward finishes their gradients.
  const int32_t w = Register(client, "w", kInputs, 1), b = Register(client, "b", 1, 0);
  const strata_facts facts = {.size = sizeof facts, .total_steps = kSteps};
  // The first weights are zero on every rank.
  Check(strata_start(client, &facts));
  const float* const weights = strata_weights(client, w);
  const float* const bias = strata_weights(client, b);
  float* const gradient = strata_gradients(client, w);
  srand(strata_rank(client) + 1);
  strata_report report = {.size = sizeof report};
  for (int step = 0; step < kSteps; ++step) {
    // Weights of this step. A deeper model would wait for each layer just before its forward.
    Check(strata_wait_all(client));
    Check(strata_begin_step(client, kBatch));
    double sums[kInputs + 1] = {0}, loss = 0;
    for (int sample = 0; sample < kBatch; ++sample) {
      double x[kInputs], error = *bias - kTrueBias;
      for (int i = 0; i < kInputs; ++i) {
        x[i] = Uniform();
        error += x[i] * (weights[i] - TrueWeight(i));
      }
      for (int i = 0; i < kInputs; ++i) sums[i] += error * x[i];
      sums[kInputs] += error;
      loss += error * error / 2;
    }
    // Sums over the batch: servers divide by the samples of all ranks.
    for (int i = 0; i < kInputs; ++i) gradient[i] = (float)sums[i];
    Check(strata_publish(client, w));
    Check(strata_publish_values(client, b, &sums[kInputs], STRATA_FLOAT64, 1));
    Check(strata_finish_step(client));
    report.loss_sum += loss;
    report.samples += kBatch;
    report.end_step = step + 1;
    if (report.end_step % kReportEvery != 0) continue;
    Check(strata_send_report(client, &report));
    report = (strata_report){.size = sizeof report, .first_step = report.end_step};
  }
  Check(strata_finish(client));
  double worst = fabs(*bias - kTrueBias);
  for (int i = 0; i < kInputs; ++i) worst = fmax(worst, fabs(weights[i] - TrueWeight(i)));
  if (strata_rank(client) == 0) printf("largest error of a weight: %.6f\n", worst);
  strata_close(client);
  return worst < 0.01 ? 0 : 1;
}
