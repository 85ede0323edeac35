#include "compare/report/sample_input.h"

#include <cmath>
#include <limits>

namespace strata::compare {
namespace {

struct Shape {
  const char* mode;
  double accuracy;    // that it comes near to
  double duration_s;  // of a run
  double waiting;
  double bytes;  // of a step
  uint64_t steps_per_update;
  int staleness;  // largest
  double rate;    // of learning
};

constexpr Shape kShapes[] = {
    {"sync", 0.884, 40, 0.31, 493648, 1, 0, 9},
    {"lazy:ssp(3)", 0.883, 26, 0.12, 493648, 1, 3, 8},
    {"lazy:diloco(16)", 0.8825, 14, 0.04, 30853, 16, 0, 6.5},
    {"async", 0.862, 17, 0.02, 493648, 1, 6, 7},
    {"async_damped", 0.880, 17.2, 0.02, 493648, 1, 6, 5.5},
    {"async_dc", 0.874, 18, 0.02, 493648, 1, 6, 10},
    {"ring", 0.884, 33, 0.27, 370236, 1, 0, 8.5},
    {kHostileName, 0.5, 20, 0.5, 493648, 1, 1, 3},
};
constexpr int kMeasurements = 25;
constexpr uint64_t kSteps = 1000, kSamplesPerStep = 256;

// Between -1 and 1, of any three numbers; the same every time.
double Noise(double a, double b, double c) {
  const double x = std::sin(a * 12.9898 + b * 78.233 + c * 37.719) * 43758.5453;
  return 2 * (x - std::floor(x)) - 1;
}

proto::RunRecord RunOf(const Shape& shape, int index, uint64_t seed) {
  proto::RunRecord run;
  run.set_mode(shape.mode);
  run.set_seed(seed);
  run.mutable_job()->set_name("lenet5");
  run.mutable_job()->set_ranks(4);
  run.mutable_job()->set_seed(seed);
  run.mutable_job()->mutable_schedule()->set_base_lr(0.05f);
  run.set_cluster("2 nodes x 2 ranks, 2 servers");
  const double duration_s = shape.duration_s * (1 + 0.03 * Noise(index, seed, 0));
  run.set_trained_s(duration_s);
  run.set_samples(kSteps * kSamplesPerStep);
  run.set_steps(kSteps);
  run.set_updates(kSteps / shape.steps_per_update);
  run.set_bytes_pushed(shape.bytes * kSteps / 2);
  run.set_bytes_answered(shape.bytes * kSteps / 2);
  run.set_waiting_share(shape.waiting + 0.01 * Noise(index, seed, 1));
  for (int bin = 0; bin < 32; ++bin) {
    run.add_staleness(bin <= shape.staleness ? 4000 / (shape.staleness + 1 + bin) : 0);
  }
  for (int i = 1; i <= kMeasurements; ++i) {
    const double share = double(i) / kMeasurements;
    const double learnt = 1 - 0.6 * std::exp(-shape.rate * share) - 0.05 * (1 - share);
    proto::Window* window = run.add_windows();
    window->set_samples(share * kSteps * kSamplesPerStep);
    window->set_trained_s(share * duration_s);
    window->set_loss(0.25 + 2 * std::exp(-0.7 * shape.rate * share) + (0.884 - shape.accuracy) +
                     0.02 * Noise(index, seed, i));
    proto::Measurement* measurement = run.add_measurements();
    measurement->set_step(share * kSteps);
    measurement->set_samples(window->samples());
    measurement->set_updates(share * run.updates());
    measurement->set_trained_s(window->trained_s());
    measurement->set_accuracy(shape.accuracy * learnt + 0.001 * Noise(seed, i, 2) +
                              0.0005 * Noise(index, seed, i));
    measurement->set_loss(window->loss() + 0.1);
  }
  return run;
}

void FailAt(int measurements, const char* failure, proto::RunRecord* run) {
  run->set_failure(failure);
  while (run->measurements_size() > measurements) {
    run->mutable_measurements()->RemoveLast();
    run->mutable_windows()->RemoveLast();
  }
  run->mutable_windows(measurements - 1)->set_loss(std::numeric_limits<double>::quiet_NaN());
  run->set_waiting_share(std::numeric_limits<double>::infinity());
}

}  // namespace

ReportInput SampleInput() {
  ReportInput input;
  input.title = kHostileName;
  input.straggler = "node 1, 4x slower";
  for (int i = 0; i < int(std::size(kShapes)); ++i) {
    input.modes.push_back(kShapes[i].mode);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      input.runs.push_back(RunOf(kShapes[i], i, seed));
      const bool is_hostile = input.modes.back() == kHostileName;
      if (is_hostile) FailAt(4, kHostileName, &input.runs.back());
      if (input.modes.back() == "async_dc" && seed == 2) {
        FailAt(11, "rank 2: loss is NaN at step 440", &input.runs.back());
        input.runs.back().set_has_diverged(true);
      }
    }
  }
  return input;
}

ReportInput OneRunInput() {
  ReportInput input = SampleInput();
  input.modes.resize(1);
  input.runs.resize(1);
  input.runs[0].clear_staleness();
  return input;
}

ReportInput AllFailedInput() {
  ReportInput input = SampleInput();
  input.modes.erase(input.modes.begin(), input.modes.end() - 1);
  input.runs.erase(input.runs.begin(), input.runs.end() - 3);
  input.modes.push_back("other");
  for (int i = 0; i < 3; ++i) {
    proto::RunRecord run = input.runs[i];
    run.set_mode("other");
    for (proto::Measurement& measurement : *run.mutable_measurements()) {
      measurement.set_accuracy(measurement.accuracy() / 2);
    }
    for (proto::Window& window : *run.mutable_windows()) window.set_loss(2 * window.loss());
    input.runs.push_back(run);
  }
  return input;
}

ReportInput TwoSeedsInput() {
  ReportInput input = SampleInput();
  input.modes.resize(2);
  std::vector<proto::RunRecord> runs;
  for (const int i : {0, 1, 3, 4}) runs.push_back(input.runs[i]);
  for (proto::Measurement& measurement : *runs[3].mutable_measurements()) {
    measurement.set_accuracy(0.97 * measurement.accuracy());
  }
  input.runs = std::move(runs);
  return input;
}

ReportInput UnderWayInput() {
  ReportInput input = TwoSeedsInput();
  input.under_way = "4 of 6 runs are made, about 1:30 left";
  return input;
}

ReportInput ManyModesInput() {
  ReportInput input = SampleInput();
  const ReportInput once = input;
  const std::string more = "+push.codec=FP16+pull.codec=FP16";
  for (const std::string& mode : once.modes) input.modes.push_back(mode + more);
  for (proto::RunRecord run : once.runs) {
    run.set_mode(run.mode() + more);
    input.runs.push_back(run);
  }
  return input;
}

}  // namespace strata::compare
