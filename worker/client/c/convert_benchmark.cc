// Measures how fast a program's tensors become gradients, and weights its tensors: GB of fp32 per
// second, beside memcpy of the same fp32 size. Results are compared with a plain loop first. usage:
// convert_benchmark [--mib N]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/client/c/convert.h"

namespace strata::client {
namespace {

constexpr int kRounds = 9;
constexpr double kScale = 0.25;  // exact in every type

size_t SizeOf(strata_dtype dtype) {
  return dtype == STRATA_FLOAT64 ? 8 : dtype == STRATA_FLOAT32 ? 4 : 2;
}

// Returns the median of several rounds, in GB of fp32 per second.
double Measure(size_t elements, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) {
    const absl::Time begin = absl::Now();
    call();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return static_cast<double>(elements) * sizeof(float) / seconds[kRounds / 2] / 1e9;
}

int Run(int mib) {
  const size_t n = (size_t{static_cast<unsigned>(mib)} << 20) / sizeof(float) + 3;
  std::vector<float> floats(n), to(n);
  for (size_t i = 0; i < n; ++i) floats[i] = static_cast<float>(i % 2048) - 1024;
  std::vector<double> other(n);  // room for any type
  const double bound =
      Measure(n, [&] { std::memcpy(to.data(), floats.data(), n * sizeof(float)); });
  absl::PrintF("%-28s %6.1f GB/s\n", "memcpy", bound);
  bool right = true;
  for (const auto& [dtype, name] :
       {std::pair(STRATA_FLOAT32, "fp32"), std::pair(STRATA_FLOAT64, "fp64"),
        std::pair(STRATA_FLOAT16, "fp16"), std::pair(STRATA_BFLOAT16, "bf16")}) {
    const auto print = [&](const std::string& what, double rate) {
      absl::PrintF("%-28s %6.1f GB/s  %3.0f%% of memcpy\n", what, rate, 100 * rate / bound);
    };
    void* const values = other.data();
    // Numbers below 256 are exact in bf16, too.
    for (float& value : floats) value = std::fmod(value, 256.0f);
    print(absl::StrCat("fp32 -> ", name),
          Measure(n, [&] { right &= FromFloats(floats, dtype, values).ok(); }));
    for (const double scale : {1.0, kScale}) {
      print(absl::StrFormat("%s * %g -> fp32", name, scale),
            Measure(n, [&] { right &= ToFloats(values, dtype, scale, absl::MakeSpan(to)).ok(); }));
      for (size_t i = 0; i < n; ++i) {
        right &= to[i] == floats[i] * static_cast<float>(scale);
      }
    }
    std::memset(values, 0xff, n * SizeOf(dtype));
  }
  if (!right) std::fputs("convert_benchmark: a result is wrong\n", stderr);
  return right ? 0 : 1;
}

}  // namespace
}  // namespace strata::client

int main(int argc, char** argv) {
  CLI::App app("How fast tensors become gradients, and weights tensors.");
  int mib = 100;
  app.add_option("--mib", mib, "fp32 numbers of so many MiB")->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  return strata::client::Run(mib);
}
