#ifndef STRATA_CLI_BENCH_TRAIN_REPORT_H_
#define STRATA_CLI_BENCH_TRAIN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/bench/train_bench.h"

namespace strata::cli {

// The measured machine.
struct Machine {
  uint32_t cores = 1;       // that this process may use
  std::string processor;    // its name, or "unknown processor"
  double load_average = 0;  // of the last minute, before the measurements
};

Machine ThisMachine();

// Returns the first "model name" in the text of /proc/cpuinfo, or empty.
std::string ProcessorIn(const std::string& cpuinfo);

// A model, or a job, and its measurements.
struct TrainedModel {
  std::string name;  // the model's, or the job file's
  uint32_t batch = 64;
  std::string precision = "FP32";
  bool is_on_gpu = false;
  bool compares_bits = true;  // checks the weights of sync
  TrainBenchResult result;
};

struct TrainReport {
  Machine machine;
  TrainCaseOptions cases;
  uint64_t steps = 0;  // of every case; 0: as many as take the base `seconds`
  double seconds = 2;
  uint32_t rounds = 3;
  std::vector<std::string> gpus;  // names of those available to ranks; for jobs on GPUs
  std::vector<TrainedModel> models;
};

// The method, one sentence each: the base, the machine, what figures mean and do not mean.
std::vector<std::string> ListRules(const TrainReport& report);

// "lenet5, batch 64 a rank, on CPU in FP32; verified: ..." or "; WRONG: ...".
std::string ModelTitle(const TrainedModel& model);

// The columns' names, then one row per case; a case without figures has the reason.
std::vector<std::vector<std::string>> TableRows(const TrainedModel& model);

// The document that docs/reports.md describes, on one line that ends in a newline.
std::string ToJson(const TrainReport& report);

// SVG files: images per second and efficiency by ranks, a line per mode with the spread of its
// rounds.
std::string RatesPicture(const TrainedModel& model);
std::string EfficiencyPicture(const TrainedModel& model);

// Rules, and table and pictures for each model: one self-contained HTML file.
std::string RenderPage(const TrainReport& report);

// Writes train.json and index.html into the directory, which is created. Errors: those of
// WriteFileAtomically.
absl::Status WriteTrainReport(const TrainReport& report, const std::string& directory);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_TRAIN_REPORT_H_
