#ifndef STRATA_BENCH_KERNELS_REPORTER_H_
#define STRATA_BENCH_KERNELS_REPORTER_H_

#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace strata::bench {

// Google Benchmark's results as Strata's tables show them: a line as each kernel is done, or JSON
// at the end.
class KernelReporter final : public benchmark::BenchmarkReporter {
 public:
  explicit KernelReporter(bool json) : json_(json) { SetErrorStream(&unsaid_); }

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  size_t kernels() const { return rows_.size(); }
  const std::string& first_error() const { return first_error_; }

 private:
  const bool json_;
  std::ostringstream unsaid_;  // what the library would say itself
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  std::string first_error_;  // "KERNEL: what is wrong"; empty: all values were right
};

}  // namespace strata::bench

#endif  // STRATA_BENCH_KERNELS_REPORTER_H_
